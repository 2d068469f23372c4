//! Which constants does `catalog/defaults.toml` stand for, each with the type of its unit?

// how a build script speaks to cargo
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use toml::{Table, Value};

/// From the root of the package.
const DEFAULTS: &str = "python/scalewright/catalog/defaults.toml";

/// Unit of text, type of the constant, what a number of it is in the base unit: digits behind it, or a factor.
const UNITS: [(&str, &str, &str); 8] = [
    ("s", "Seconds", ""),
    ("ms", "Seconds", "e-3"),
    ("us", "Seconds", "e-6"),
    ("ns", "Seconds", "e-9"),
    ("ps", "Seconds", "e-12"),
    ("GB/s", "BytesPerSecond", "e9"),
    ("GiB", "Bytes", " * 1_073_741_824.0"),
    ("USD", "Dollars", ""),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={DEFAULTS}");
    println!("cargo:rerun-if-changed=rust/build.rs");
    let wrong = |error: Box<dyn Error>| format!("{DEFAULTS}: {error}");
    let text = std::fs::read_to_string(DEFAULTS).map_err(|error| wrong(error.into()))?;
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| wrong(error.into()))?;
    let mut code = String::new();
    module("", &table, &mut code).map_err(wrong)?;
    let folder = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&folder).join("defaults.rs"), code)?;
    Ok(())
}

/// Writes a constant for each figure of a table and a module for each table in it.
fn module(path: &str, table: &Table, code: &mut String) -> Result<(), Box<dyn Error>> {
    for (name, value) in table {
        if name == "source" {
            continue;
        }
        if let Value::Table(inner) = value {
            let path = format!("{path}{name}");
            write!(
                code,
                "/// `[{path}]` of `catalog/defaults.toml`, which says where it comes from.\n\
                pub(crate) mod {name} {{\n\
                #[allow(unused_imports)]\n\
                use crate::units::{{Bytes, BytesPerSecond, Dollars, Seconds}};\n"
            )?;
            module(&format!("{path}."), inner, code)?;
            code.push_str("}\n");
        } else {
            let (kind, figure) = constant(name, value)?;
            let upper = name.to_uppercase();
            writeln!(code, "pub(crate) const {upper}: {kind} = {figure};")?;
        }
    }
    Ok(())
}

/// The type and the expression of a figure.
fn constant(name: &str, value: &Value) -> Result<(&'static str, String), String> {
    let wrong =
        || format!("{name}: got {value}; allowed: a number with a point, or text with a unit");
    match value {
        Value::Float(number) => Ok(("f64", format!("{number:?}"))),
        Value::String(text) => {
            let (digits, unit) = text.split_once(' ').ok_or_else(wrong)?;
            let known = UNITS.iter().find(|(own, _, _)| *own == unit);
            let (_, kind, scale) = known.ok_or_else(wrong)?;
            let zeros = if scale.is_empty() || scale.starts_with(' ') {
                ".0"
            } else {
                ""
            };
            let zeros = if digits.contains('.') { "" } else { zeros };
            Ok((kind, format!("{kind}::new({digits}{zeros}{scale})")))
        }
        _ => Err(wrong()),
    }
}
