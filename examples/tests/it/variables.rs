//! The environment variables, in the sources and wherever they are written down.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const README: &str = include_str!("../../../README.md");
const ENV_EXAMPLE: &str = include_str!("../../deploy/.env.example");

/// Every name between quotes, back quotes or at a line's start that is one of a variable.
fn names(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
        .filter(|word| word.starts_with("RVC_") || word.starts_with("MCP_") || *word == "RUST_LOG")
        .filter(|word| !word.ends_with('_') && !word.starts_with("RVC_INTEROP"))
        .map(str::to_owned)
        .collect()
}

/// What the library crates that a server links read.
fn read_by_servers() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut sources = vec![];
    for name in ["rvc-poster", "rvc-tasks", "rvc-mcp"] {
        collect(&crates.join(name).join("src"), &mut sources);
    }
    sources.iter().flat_map(|source| names(source)).collect()
}

fn collect(directory: &Path, sources: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("the crate is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            collect(&path, sources);
        } else {
            sources.push(fs::read_to_string(&path).expect("sources are text"));
        }
    }
}

#[test]
fn the_env_example_has_every_variable_that_a_server_reads_and_no_other() {
    assert_eq!(names(ENV_EXAMPLE), read_by_servers());
}

#[test]
fn the_readme_has_every_variable_that_a_server_reads() {
    let section = README
        .split("## Environment variables")
        .nth(1)
        .expect("the section is there");
    let table = section.split("\n## ").next().unwrap();
    assert!(names(table).is_superset(&read_by_servers()), "{table}");
}
