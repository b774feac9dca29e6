//! The README's server.

const README: &str = include_str!("../../../README.md");
const QUICKSTART: &str = include_str!("../../quickstart.rs");

/// The example without the line that says what it is.
fn server() -> &'static str {
    let (_, server) = QUICKSTART.split_once("\n\n").expect("a line is first");
    server
}

#[test]
fn the_readmes_server_is_the_quickstart_example() {
    assert!(README.contains(&format!("```rust\n{}```", server())));
}

#[test]
fn the_readmes_server_has_at_most_40_lines() {
    assert!(server().lines().count() <= 40);
}
