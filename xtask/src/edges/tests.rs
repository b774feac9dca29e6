#![allow(clippy::unwrap_used)]

use super::{Violation, published, violations};
use crate::metadata::tests::{metadata, package};

fn found(from: &str, dependencies: &[(&str, &str)]) -> Vec<Violation> {
    violations(&metadata(&[package(from, dependencies)], &[]))
}

fn forbidden(from: &str, to: &str) -> Vec<Violation> {
    vec![Violation::Forbidden {
        from: from.to_owned(),
        to: to.to_owned(),
    }]
}

fn guarded(from: &str, to: &str) -> Vec<Violation> {
    vec![Violation::Guarded {
        from: from.to_owned(),
        to: to.to_owned(),
    }]
}

#[test]
fn every_edge_outside_the_table_is_reported() {
    for (from, to) in [
        ("rvc-wire", "rvc-sign"),
        ("rvc-sign", "rvc-wire"),
        ("rvc-poster", "rvc-tasks"),
        ("rvc-tasks", "rvc-sign"),
        ("rvc-mcp", "rvc-poster"),
        ("rvc-durable", "rvc-tasks"),
        ("rvc-inbox", "rvc-poster"),
        ("rvc-poster", "rvc-test"),
        ("rvc-tasks", "xtask"),
    ] {
        assert_eq!(found(from, &[(to, "")]), forbidden(from, to));
        assert_eq!(found(from, &[(to, "build")]), forbidden(from, to));
    }
}

#[test]
fn the_edges_of_the_table_are_allowed() {
    for (from, to) in [
        ("rvc-poster", "rvc-wire"),
        ("rvc-poster", "rvc-sign"),
        ("rvc-tasks", "rvc-wire"),
        ("rvc-tasks", "rvc-poster"),
        ("rvc-mcp", "rvc-tasks"),
        ("rvc-durable", "rvc-mcp"),
        ("rvc-durable", "rvc-wire"),
        ("rvc-inbox", "rvc-wire"),
        ("rvc-inbox", "rvc-sign"),
        ("rvc-cli", "rvc-inbox"),
        ("rvc-examples", "rvc-mcp"),
    ] {
        assert_eq!(found(from, &[(to, "")]), []);
    }
}

#[test]
fn tests_may_look_sideways() {
    assert_eq!(found("rvc-poster", &[("rvc-test", "dev")]), []);
    assert_eq!(found("rvc-inbox", &[("rvc-poster", "dev")]), []);
}

#[test]
fn the_shared_fakes_depend_on_none_of_ours_even_in_tests() {
    for kind in ["", "dev", "build"] {
        assert_eq!(
            found("rvc-test", &[("rvc-wire", kind)]),
            forbidden("rvc-test", "rvc-wire")
        );
    }
}

#[test]
fn guarded_packages_belong_to_their_owners_in_tests_too() {
    for (from, to) in [
        ("rvc-tasks", "rmcp"),
        ("rvc-poster", "ring"),
        ("rvc-mcp", "anyhow"),
    ] {
        assert_eq!(found(from, &[(to, "")]), guarded(from, to));
        assert_eq!(found(from, &[(to, "dev")]), guarded(from, to));
    }
    for (from, to) in [
        ("rvc-mcp", "rmcp"),
        ("rvc-sign", "ring"),
        ("rvc-bench", "ring"),
        ("xtask", "anyhow"),
    ] {
        assert_eq!(found(from, &[(to, "")]), []);
    }
}

#[test]
fn a_crate_without_a_row_is_reported() {
    assert_eq!(
        found("rvc-unheard-of", &[]),
        [Violation::NoRow {
            from: "rvc-unheard-of".to_owned()
        }]
    );
}

#[test]
fn a_dependency_of_ours_that_comes_from_elsewhere_is_not_ours_to_judge() {
    let metadata = metadata(&[], &[package("rustls", &[("ring", "")])]);

    assert_eq!(violations(&metadata), []);
}

#[test]
fn the_eight_crates_of_the_kit_are_published() {
    assert_eq!(published().count(), 8);
    assert!(published().all(|name| name.starts_with("rvc-")));
}
