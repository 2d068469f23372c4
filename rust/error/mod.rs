//! What can be wrong with an input, said so that the reader can mend it.

pub mod amounts;

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

/// Reads `T` from JSON text. The error names the path of the offending field under `root`.
pub fn from_json<'a, T: serde::Deserialize<'a>>(root: &str, text: &'a str) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = read_from(root, &mut reader)?;
    let rest = reader.end();
    rest.map_err(|e| Error::inconsistent(format!("{root}: {}", plain(&e.to_string()))))?;
    Ok(value)
}

/// As `from_json`, of what has been read already.
pub fn from_value<T: serde::de::DeserializeOwned>(
    root: &str,
    value: serde_json::Value,
) -> Result<T> {
    read_from(root, value)
}

/// Reads a value, or says which field below `root` is wrong; no root: the field alone.
fn read_from<'a, T, D>(root: &str, reader: D) -> Result<T>
where
    T: serde::Deserialize<'a>,
    D: serde::Deserializer<'a, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(reader).map_err(|e| {
        let path = e.path().to_string();
        let field = match (root, path.as_str()) {
            (root, ".") => root.to_owned(),
            ("", path) => path.to_owned(),
            (root, path) => format!("{root}.{path}"),
        };
        misread(&field, plain(&e.inner().to_string()))
    })
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
        Some((got, allowed)) => Error::invalid(field, got, allowed),
        None => Error::inconsistent(format!("{field}: {message}")),
    }
}

/// What was found, of serde's ``invalid value: integer `-1` ``.
fn given(text: &str) -> &str {
    let text = text.split_once(": ").map_or(text, |(_, found)| found);
    text.split('`').nth(1).unwrap_or(text)
}

/// What may stand there, of what serde expects.
fn in_words(expected: &str) -> &str {
    match expected {
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
