//! The official conformance suite, whole: nothing is expected to fail.

use std::collections::BTreeMap;

use crate::script::{node, output};
use crate::server::Server;

/// Runs what a revision requires, and what the suite runs beside it; returns the number of checks
/// that each scenario passed.
fn suite(revision: &str) -> BTreeMap<String, usize> {
    let server = Server::start("conformance");
    let mut suite = node("@modelcontextprotocol/conformance/dist/index.js");
    suite.args(["server", "--url", &server.url, "--requirements", revision]);
    let written = output(suite).unwrap_or_else(|failure| panic!("{failure}"));
    passed(&written).unwrap_or_else(|scenario| panic!("{scenario}\n{written}"))
}

/// Reads the summary. Scenarios that are not scored (the Tasks extension's) must pass too.
fn passed(written: &str) -> Result<BTreeMap<String, usize>, String> {
    let (_, summary) = written
        .split_once("=== SUMMARY ===")
        .ok_or("there is no summary")?;
    let scenarios = summary.lines().map_while(|line| match line {
        "" => Some(None),
        line if line.starts_with("Total:") => None,
        line => Some(Some(line)),
    });
    scenarios.flatten().map(scenario).collect()
}

/// A line such as `✓ tasks-lifecycle: 9 passed, 0 failed`.
fn scenario(line: &str) -> Result<(String, usize), String> {
    let parts = || {
        let (name, counts) = line.strip_prefix("✓ ")?.split_once(": ")?;
        let passed = counts.strip_suffix(" passed, 0 failed")?.parse().ok()?;
        Some((name.to_owned(), passed))
    };
    parts().ok_or_else(|| line.to_owned())
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn the_suite_of_2025_11_25_passes_whole() {
    let passed = suite("2025-11-25");
    assert_eq!(passed.len(), 33);
    assert_eq!(passed.values().sum::<usize>(), 83);
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn the_suite_of_2026_07_28_passes_whole_with_every_check_of_the_tasks_extension() {
    let passed = suite("2026-07-28");
    assert_eq!(passed.len(), 50);
    assert_eq!(passed.values().sum::<usize>(), 197);
    for (scenario, checks) in [
        ("tasks-lifecycle", 9),
        ("tasks-capability-negotiation", 5),
        ("tasks-wire-fields", 4),
        ("tasks-request-state-removal", 3),
        ("tasks-mrtr-input", 4),
        ("tasks-request-headers", 5),
        ("tasks-dispatch-and-envelope", 9),
        ("tasks-required-task-error", 3),
        ("tasks-mrtr-composition", 2),
    ] {
        assert_eq!(passed.get(scenario), Some(&checks), "{scenario}");
    }
}

#[test]
fn a_scenario_that_failed_is_not_read_as_passed() {
    let summary = |lines: &str| format!("=== SUMMARY ===\n{lines}\n\nTotal: 1 passed, 0 failed\n");
    let good = passed(&summary("✓ ping: 2 passed, 0 failed"));
    assert_eq!(good, Ok(BTreeMap::from([("ping".to_owned(), 2)])));
    for bad in [
        "✗ ping: 1 passed, 1 failed",
        "✓ ping: 2 passed, 0 failed, 1 warnings",
        "ping",
    ] {
        assert_eq!(passed(&summary(bad)), Err(bad.to_owned()));
    }
    assert!(passed("").is_err());
}
