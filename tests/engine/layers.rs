//! Do imports point down, and does every file keep to the house rules of size, name and first line?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 600;
const VAGUE_NAMES: [&str; 4] = ["utils", "helpers", "manager", "common"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Floor by module, from the table of `docs/architecture.md`.
fn floors() -> BTreeMap<String, u32> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let mut floors = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, floor, modules, _, _] = cells[..]
            && let Ok(floor) = floor.parse()
        {
            for module in modules.split_whitespace() {
                floors.insert(module.trim_matches('`').to_owned(), floor);
            }
        }
    }
    floors
}

/// Every Rust file under `folder`, in order.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The file's text without its comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|l| l.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// The name of the floor's module that `path` belongs to: `rust/hardware/tier.rs` is `hardware`.
fn module(path: &Path) -> String {
    let inside = path.strip_prefix(root().join("rust")).unwrap();
    let first = inside.components().next().unwrap().as_os_str();
    first.to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// Names that directly follow `prefix`, also in braces: `crate::{a::B, c}` gives `a` and `c`.
fn names_after(prefix: &str, code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            names.push(identifier(rest));
            continue;
        };
        let mut depth = 0_i32;
        let mut starts = true;
        for (i, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => starts = true,
                c if starts && !c.is_whitespace() => {
                    names.push(identifier(&group[i..]));
                    starts = false;
                }
                _ => {}
            }
        }
    }
    names
}

fn identifier(text: &str) -> String {
    let letter = |c: &char| c.is_alphanumeric() || *c == '_';
    text.chars().take_while(letter).collect()
}

/// Imports of `path` that do not point down, as sentences.
fn wrong_imports(path: &Path, code: &str, floors: &BTreeMap<String, u32>) -> Vec<String> {
    let from = module(path);
    let mut imported = names_after("crate::", code);
    let depth = path.strip_prefix(root()).unwrap().components().count();
    if depth == 2 || path.ends_with("mod.rs") && depth == 3 {
        imported.extend(names_after("super::", code)); // the crate's root is one step up
    }
    let mut wrong = Vec::new();
    if code.contains("super::super::") {
        wrong.push(format!(
            "{}: super::super:: hides where it points",
            path.display()
        ));
    }
    for to in imported {
        let Some(&target) = floors.get(&to) else {
            continue;
        };
        let ground = to == "error" || to == "control";
        if to != from && target >= floors[&from] && !ground {
            wrong.push(format!("{}: `{from}` imports `{to}`", path.display()));
        }
    }
    wrong
}

#[test]
fn every_module_has_a_floor() {
    let floors = floors();
    assert!(floors.len() >= 10, "no table in docs/architecture.md?");
    for path in files("rust") {
        let name = module(&path);
        assert!(
            ["lib", "build"].contains(&name.as_str()) || floors.contains_key(&name),
            "{name} has no floor"
        );
    }
}

#[test]
fn imports_point_down() {
    let floors = floors();
    let wrong: Vec<String> = files("rust")
        .iter()
        .filter(|path| !["lib", "build"].contains(&module(path).as_str()))
        .flat_map(|path| wrong_imports(path, &code(path), &floors))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_that_points_up_is_found() {
    let floors = floors();
    let path = root().join("rust/hardware/tier.rs");
    for (code, count) in [
        ("use crate::units::Bytes;", 0),
        ("use crate::error::Result;", 0),
        ("use crate::workload::Dim;", 1),
        (
            "use crate::{error::Result, plan::{Plan, Schedule}, search};",
            2,
        ),
        ("fn f(_: &crate::plan::Plan) {}", 1),
        ("use super::super::plan::Plan;", 1),
    ] {
        assert_eq!(wrong_imports(&path, code, &floors).len(), count, "{code}");
    }
    let top = root().join("rust/control.rs");
    assert_eq!(
        wrong_imports(&top, "use super::units::Bytes;", &floors).len(),
        1
    );
}

#[test]
fn only_the_binding_knows_python() {
    for path in files("rust").iter().filter(|p| module(p) != "python") {
        let code = code(path);
        assert!(
            !code.contains("pyo3") && !code.contains("numpy"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn files_are_short_named_by_what_they_hold_and_open_with_a_sentence() {
    let folders = ["rust", "tests", "benches"].into_iter();
    let folders = folders.filter(|folder| root().join(folder).exists());
    for path in folders.flat_map(files) {
        let text = fs::read_to_string(&path).unwrap();
        let shown = path.strip_prefix(root()).unwrap().display();
        let lines = text.lines().count();
        assert!(lines <= MOST_LINES, "{shown} has {lines} lines");
        let first = text.lines().next().unwrap_or("");
        let sentence = first.starts_with("//! ") && first.ends_with(['.', '?']);
        assert!(sentence, "{shown}: line 1 is no `//!` sentence: {first}");
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            !VAGUE_NAMES.iter().any(|v| stem.contains(v)),
            "{shown} has a vague name"
        );
    }
}

#[test]
fn every_file_of_tests_is_part_of_their_crate() {
    let folder = root().join("tests/engine");
    let main = fs::read_to_string(folder.join("main.rs")).unwrap();
    let parts: Vec<&str> = main
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            name == "main" || parts.contains(&name),
            "{}",
            path.display()
        );
    }
}
