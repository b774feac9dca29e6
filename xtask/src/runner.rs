//! Runs the workspace's tests: with nextest, else with `cargo test`.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::outcome::Outcome;
use crate::tools::NEXTEST;
use crate::workspace::Workspace;

/// Which tests run.
///
/// Every selection builds the whole workspace with all features, so that all of
/// them share one build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All that need nothing but this machine and a moment.
    Plain,
    /// Those that talk to peers in other languages.
    Interop,
    /// Those on `PostgreSQL`: the durable store's whole suite, the command line's, the chaos, and
    /// what tests the clusters themselves.
    Postgres,
    /// Those that run long.
    Soak,
    /// The chaos, for as long as it is told to.
    Chaos,
}

impl Selection {
    #[cfg(test)]
    const ALL: [Self; 5] = [
        Self::Plain,
        Self::Interop,
        Self::Postgres,
        Self::Soak,
        Self::Chaos,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    /// A process per test: what one test leaves behind, another never sees.
    Nextest,
    CargoTest,
}

/// Runs the selected tests with further environment variables.
///
/// No test selected is a failure too.
///
/// # Errors
/// When the runner does not start, or does not say why it failed.
pub(crate) fn run(
    workspace: &Workspace,
    selection: Selection,
    variables: &[(&str, &OsStr)],
) -> anyhow::Result<Outcome> {
    run_inside(workspace, None, selection, variables)
}

/// The same, started by another program, which is given the command as its arguments.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_inside(
    workspace: &Workspace,
    outer: Option<&Path>,
    selection: Selection,
    variables: &[(&str, &OsStr)],
) -> anyhow::Result<Outcome> {
    let runner = match NEXTEST.ensure(workspace) {
        Ok(()) => Runner::Nextest,
        Err(error) => {
            eprintln!("no nextest, so `cargo test` it is: {error}");
            Runner::CargoTest
        }
    };
    let arguments = arguments(runner, selection);
    let command = match outer {
        None => workspace.cargo(arguments),
        Some(outer) => workspace.program(outer, [&["cargo"], &arguments[..]].concat()),
    };
    let command = command.envs(variables.iter().copied());
    match runner {
        Runner::CargoTest => {
            command.run()?;
            Ok(Outcome::passed())
        }
        Runner::Nextest => {
            eprintln!("$ {command}");
            run_for_summary(command.into())
        }
    }
}

/// The command line of one selection.
fn arguments(runner: Runner, selection: Selection) -> Vec<&'static str> {
    const INTEROP: &str =
        "(package(rvc-examples) & binary(interop)) | (package(rvc-durable) & test(fastmcp::))";
    // With a cluster beside them, the tests that run without one as well run on it.
    const POSTGRES: &str = "((package(rvc-durable) - test(fastmcp::)) \
        | (package(rvc-cli) & test(/^(chaos|durable|kill|operator)::/)) \
        | (package(rvc-test) & test(postgres::))) \
        - test(soak)";
    let (command, chosen): (&[&str], &[&str]) = match runner {
        Runner::Nextest => (
            &["nextest", "run", "--no-fail-fast"],
            match selection {
                Selection::Plain => &[],
                Selection::Interop => &["--run-ignored=only", "-E", INTEROP],
                Selection::Postgres => &["--run-ignored=all", "-E", POSTGRES],
                Selection::Soak => &["--run-ignored=only", "-E", "test(soak) - test(soak_chaos)"],
                Selection::Chaos => &["--run-ignored=only", "-E", "test(soak_chaos)"],
            },
        ),
        Runner::CargoTest => (
            &["test", "--no-fail-fast"],
            match selection {
                Selection::Plain => &["--all-targets"],
                Selection::Interop => &[
                    "--test=interop",
                    "--test=it",
                    "--",
                    "--ignored",
                    "--skip=soak",
                    "--skip=postgres",
                    "--skip=chaos",
                ],
                // Not by crate, so others' tests run again.
                Selection::Postgres => &[
                    "--lib",
                    "--test=it",
                    "--",
                    "--include-ignored",
                    "--skip=soak",
                    "--skip=fastmcp",
                ],
                Selection::Soak => &[
                    "--all-targets",
                    "soak",
                    "--",
                    "--ignored",
                    "--skip=soak_chaos",
                ],
                Selection::Chaos => &["--test=it", "soak_chaos", "--", "--ignored"],
            },
        ),
    };
    [command, &["--workspace", "--all-features"], chosen].concat()
}

/// Passes nextest's lines on and keeps its summary.
fn run_for_summary(mut command: Command) -> anyhow::Result<Outcome> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let lines = child.stderr.take().context("standard error is piped")?;
    let mut summary = None;
    for line in BufReader::new(lines).lines() {
        let line = line?;
        eprintln!("{line}");
        if is_summary(&line) {
            summary = Some(line);
        }
    }
    if child.wait()?.success() {
        return Ok(Outcome::Passed { summary });
    }
    let error = match summary {
        Some(_) => "tests failed, see above",
        None => "the tests did not build or run",
    };
    Ok(Outcome::Failed {
        error: error.to_owned(),
        summary,
    })
}

/// Colours may stand between the words.
fn is_summary(line: &str) -> bool {
    line.contains("Summary") && line.contains("run:")
}

#[cfg(test)]
mod tests {
    use super::{Runner, Selection, arguments, is_summary};

    #[test]
    fn every_selection_shares_one_build() {
        for runner in [Runner::Nextest, Runner::CargoTest] {
            for selection in Selection::ALL {
                let line = arguments(runner, selection).join(" ");

                assert!(line.contains(" --workspace --all-features"), "{line}");
            }
        }
    }

    #[test]
    fn tests_that_need_more_than_this_machine_are_left_out_unless_selected() {
        for runner in [Runner::Nextest, Runner::CargoTest] {
            let plain = arguments(runner, Selection::Plain).join(" ");
            let interop = arguments(runner, Selection::Interop).join(" ");

            assert!(!plain.contains("ignored"));
            assert!(interop.contains("ignored") && interop.contains("interop"));
        }
    }

    #[test]
    fn the_summary_line_is_known_with_and_without_colours() {
        for line in [
            "     Summary [   0.012s] 5 tests run: 5 passed, 1 skipped",
            "     Summary [   0.012s] 1 test run: 0 passed, 1 failed",
            "\u{1b}[32;1m     Summary\u{1b}[0m [ 0.1s] \u{1b}[1m5\u{1b}[0m tests run: 5",
        ] {
            assert!(is_summary(line), "{line}");
        }
        assert!(!is_summary("        PASS [ 0.012s] rvc-wire summary"));
    }
}
