//! The README's code.

const README: &str = include_str!("../../../README.md");

#[test]
fn its_server_is_the_quickstart_example() {
    let quickstart = include_str!("../../quickstart.rs");
    assert!(README.contains(&format!("```rust\n{quickstart}```")));
}

#[test]
fn its_server_has_at_most_40_lines() {
    let quickstart = include_str!("../../quickstart.rs");
    assert!(quickstart.lines().count() <= 40);
}
