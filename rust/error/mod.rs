//! What can be wrong with an input, said so that the reader can mend it.

pub mod amounts;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;
use thiserror::Error;

/// Result of every fallible call of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// An input that cannot be used. An infeasible plan is not an error but a value.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Error {
    /// A field holds a value that is not allowed.
    #[error("{field}: got {value}; allowed: {allowed}")]
    Invalid {
        /// Path of the field, as `training.global_batch`.
        field: String,
        /// What was found there.
        value: String,
        /// What may stand there.
        allowed: String,
    },
    /// A name that is not in the catalog or not a member of a closed set.
    #[error("{kind}: unknown name '{name}'{}", nearest(.name, .known))]
    Unknown {
        /// What kind of thing was looked for, as `dtype`.
        kind: String,
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Fields that contradict each other.
    #[error("{what}")]
    Inconsistent {
        /// The contradiction, naming the fields.
        what: String,
    },
    /// Long work was stopped by the caller.
    #[error("cancelled: {what}")]
    Cancelled {
        /// What had been finished.
        what: String,
    },
}

impl Error {
    /// A field with a value outside what is allowed.
    #[allow(clippy::needless_pass_by_value)] // numbers are passed without a borrow at every call
    pub fn invalid(
        field: impl Into<String>,
        value: impl ToString,
        allowed: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            field: field.into(),
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }

    /// Fields that contradict each other.
    pub fn inconsistent(what: impl Into<String>) -> Self {
        Self::Inconsistent { what: what.into() }
    }

    /// A name that is not known.
    pub fn unknown<S: Into<String>>(
        kind: &str,
        name: &str,
        known: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::Unknown {
            kind: kind.to_owned(),
            name: name.to_owned(),
            known: known.into_iter().map(Into::into).collect(),
        }
    }
}

/// The hint at the end of an unknown-name message: the nearest names, else all of a short list.
fn nearest(name: &str, known: &[String]) -> String {
    let mut scored: Vec<(f64, &String)> = known
        .iter()
        .map(|k| (strsim::jaro_winkler(name, k), k))
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let names: Vec<&str> = scored.iter().take(3).map(|(_, k)| k.as_str()).collect();
    if !names.is_empty() {
        format!("; nearest: {}", names.join(", "))
    } else if known.len() <= 24 {
        format!("; known: {}", known.join(", "))
    } else {
        format!("; {} names are known", known.len())
    }
}

/// Reads `T` from JSON text. The error names the path of the offending field under `root`, or alone
/// where there is no root.
pub fn from_json<T: DeserializeOwned>(root: &str, text: &str) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = read_from(&mut reader);
    let value = value.map_err(|wrong| {
        let whole = || serde_json::from_str(text).unwrap_or_default();
        named(root, &choices::<T>(&wrong, whole).unwrap_or(wrong))
    })?;
    let rest = reader.end();
    rest.map_err(|e| Error::inconsistent(format!("{root}: {}", plain(&e.to_string()))))?;
    Ok(value)
}

/// As `from_json`, of what has been read already.
pub fn from_value<T: DeserializeOwned>(root: &str, value: Value) -> Result<T> {
    let read = read_from(value.clone());
    read.map_err(|wrong| named(root, &choices::<T>(&wrong, || value).unwrap_or(wrong)))
}

/// What serde says of a field.
struct Misread {
    path: serde_path_to_error::Path,
    message: String,
}

fn read_from<'a, T, D>(reader: D) -> std::result::Result<T, Misread>
where
    T: serde::Deserialize<'a>,
    D: serde::Deserializer<'a, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(reader).map_err(|e| Misread {
        path: e.path().clone(),
        message: plain(&e.inner().to_string()).to_owned(),
    })
}

/// Of a number or the like where a name is due, serde tells neither what it got nor what it allows:
/// another name in its place brings out the names that there are.
fn choices<T: DeserializeOwned>(wrong: &Misread, whole: impl FnOnce() -> Value) -> Option<Misread> {
    if wrong.message != "expected value" {
        return None;
    }
    let mut whole = whole();
    let place = at(&mut whole, &wrong.path)?;
    let got = std::mem::replace(place, Value::String("?".to_owned()));
    let told = read_from::<T, _>(whole).err()?;
    let known: Vec<&str> = told.message.split('`').skip(3).step_by(2).collect();
    let is_choice = told.message.starts_with("unknown variant") && !known.is_empty();
    is_choice.then(|| Misread {
        path: told.path,
        message: format!("got {got}; allowed: {}", known.join(", ")),
    })
}

/// The value at a path.
fn at<'a>(mut value: &'a mut Value, path: &serde_path_to_error::Path) -> Option<&'a mut Value> {
    for step in path {
        value = match step {
            Segment::Seq { index } => value.get_mut(*index)?,
            Segment::Map { key } => value.get_mut(key)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    Some(value)
}

/// The error that names a field below `root`.
fn named(root: &str, wrong: &Misread) -> Error {
    let path = wrong.path.to_string();
    // a key that is none of a table's is the last of its path, and in the message
    let path = path
        .strip_suffix('?')
        .unwrap_or(&path)
        .trim_end_matches('.');
    let field = match (root, path) {
        (root, "") => root.to_owned(),
        ("", path) => path.to_owned(),
        (root, path) => format!("{root}.{path}"),
    };
    misread(&field, &wrong.message)
}

/// Turns serde's message into ours: unknown names get their nearest, Rust's types get words.
fn misread(field: &str, message: &str) -> Error {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    for kind in ["unknown field", "unknown variant"] {
        if let (true, [name, known @ ..]) = (message.starts_with(kind), quoted.as_slice()) {
            let field = if field == *name { "field" } else { field };
            return Error::unknown(field, name, known.iter().copied());
        }
    }
    if let Some((got, expected)) = message.split_once(", expected ") {
        return Error::invalid(field, given(got), in_words(expected));
    }
    let told = message.strip_prefix("got ");
    match told.and_then(|told| told.split_once("; allowed: ")) {
        Some((got, allowed)) => return Error::invalid(field, got, allowed),
        None if message.starts_with("missing field") => {}
        None => return Error::inconsistent(format!("{field}: {message}")),
    }
    let dot = if field.is_empty() { "" } else { "." };
    let missing = quoted.first().copied().unwrap_or_default();
    let allowed = "a value: it has no default";
    Error::invalid(format!("{field}{dot}{missing}"), "nothing", allowed)
}

/// What was found, of serde's ``invalid value: integer `-1` ``.
fn given(text: &str) -> &str {
    let text = text.split_once(": ").map_or(text, |(_, found)| found);
    match text {
        "sequence" => "a list",
        "map" => "an object with fields",
        _ => match text.strip_prefix("string ") {
            Some(quoted) => quoted,
            None => text.split('`').nth(1).unwrap_or(text),
        },
    }
}

/// What may stand there, of what serde expects.
fn in_words(expected: &str) -> &str {
    match expected {
        "a sequence" => "a list",
        "a string" | "string" | "a borrowed string" => "text",
        "a map" => "an object with fields",
        "u32" => "a whole number from 0 to 2^32 - 1",
        "u64" => "a whole number from 0 to 2^64 - 1",
        "u8" => "a whole number from 0 to 255",
        "usize" => "a whole number, 0 or more",
        "f64" => "a number",
        "a boolean" => "true or false",
        object if object.starts_with("struct") => "an object with fields",
        other => other,
    }
}

/// Drops `serde_json`'s position ("at line 1 column 80"): the text is generated, the path says where.
fn plain(message: &str) -> &str {
    message
        .rfind(" at line ")
        .map_or(message, |end| &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_shows_the_nearest() {
        let error = Error::unknown("system", "dgx-a100", ["dgx-a100-80gb", "tpu-v4"]);
        assert!(error.to_string().contains("nearest: dgx-a100-80gb"));
    }

    #[test]
    fn a_misspelt_field_shows_the_nearest() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Inner {
            #[allow(dead_code)]
            tensor: u32,
        }
        let error = from_json::<Inner>("plan", "{\"tensr\": 1}").unwrap_err();
        assert!(error.to_string().ends_with("nearest: tensor"), "{error}");
        let error = from_json::<Inner>("plan", "3").unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("allowed: an object with fields"),
            "{error}"
        );
        let error = from_json::<Inner>("plan", "{\"tensor\": -1}").unwrap_err();
        assert!(error.to_string().contains("a whole number"), "{error}");
    }

    #[test]
    fn a_number_in_the_place_of_a_name_tells_the_names() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Kind {
            Ring,
            Tree,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Asked {
            #[allow(dead_code)]
            kinds: Vec<Kind>,
        }
        let error = from_json::<Asked>("", "{\"kinds\": [\"ring\", 5]}").unwrap_err();
        assert_eq!(error.to_string(), "kinds[1]: got 5; allowed: ring, tree");
        let error = from_json::<Asked>("asked", "{}").unwrap_err();
        let said = "asked.kinds: got nothing; allowed: a value: it has no default";
        assert_eq!(error.to_string(), said);
        let error = from_json::<Asked>("asked", "{\"kinds\": \"ring\"}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "asked.kinds: got \"ring\"; allowed: a list"
        );
    }

    #[test]
    fn a_json_error_names_the_path() {
        #[derive(Debug, serde::Deserialize)]
        struct Inner {
            #[allow(dead_code)]
            a: u32,
        }
        let error = from_json::<Vec<Inner>>("list", "[{\"a\": -1}]").unwrap_err();
        assert!(error.to_string().starts_with("list.[0].a"), "{error}");
    }
}
