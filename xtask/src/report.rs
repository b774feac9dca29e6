//! What the gate says at its end.

use std::fmt::Write as _;
use std::time::Duration;

use crate::gate::Stage;
use crate::outcome::{Outcome, Place};

/// One stage that has run.
pub(crate) struct Entry {
    pub(crate) stage: &'static Stage,
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
}

/// The table, the reasons and the verdict, then the runners' own summaries.
pub(crate) fn report(entries: &[Entry], place: Place) -> String {
    let mut text = format!("\n{:<12}{:>9}  result\n", "stage", "seconds");
    for entry in entries {
        let (name, took) = (entry.stage.name, entry.took.as_secs_f64());
        let word = entry.outcome.word(place);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<12}{took:>9.1}  {word}");
    }
    for entry in entries {
        let (name, advice) = (entry.stage.name, entry.stage.advice);
        let _ = match &entry.outcome {
            Outcome::Passed { .. } => Ok(()),
            Outcome::Failed { error, .. } => {
                writeln!(text, "\n{name} failed: {error}\n  what to do: {advice}")
            }
            Outcome::Skipped { reason } | Outcome::Excused { reason } => {
                writeln!(text, "\n{name} was skipped: {reason}")
            }
        };
    }
    let failed = failed(entries, place);
    let total: Duration = entries.iter().map(|entry| entry.took).sum();
    let verdict = match failed.as_slice() {
        [] => "passed".to_owned(),
        names => format!("FAILED: {}", names.join(", ")),
    };
    let _ = writeln!(text, "\nci {verdict} ({} s)", total.as_secs());
    for entry in entries {
        if let Some(summary) = entry.outcome.summary() {
            let _ = writeln!(text, "{summary}");
        }
    }
    text
}

/// The stages because of which the gate fails.
pub(crate) fn failed(entries: &[Entry], place: Place) -> Vec<&'static str> {
    entries
        .iter()
        .filter(|entry| entry.outcome.fails_the_gate(place))
        .map(|entry| entry.stage.name)
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::{Entry, failed, report};
    use crate::gate::select;
    use crate::outcome::{Outcome, Place};

    fn entry(name: &str, outcome: Outcome) -> Entry {
        Entry {
            stage: select(&[name.to_owned()]).unwrap()[0],
            took: Duration::from_millis(1_500),
            outcome,
        }
    }

    fn entries() -> [Entry; 3] {
        let summary = "     Summary [   0.012s] 5 tests run: 5 passed, 1 skipped";
        [
            entry("fmt", Outcome::failed("exit code 1")),
            entry(
                "test",
                Outcome::Passed {
                    summary: Some(summary.to_owned()),
                },
            ),
            entry(
                "interop",
                Outcome::Skipped {
                    reason: "no python3".to_owned(),
                },
            ),
        ]
    }

    #[test]
    fn a_failed_stage_says_what_to_do() {
        let text = report(&entries(), Place::Desk);

        assert!(text.contains("fmt               1.5  FAILED"), "{text}");
        assert!(text.contains("what to do: run `cargo fmt --all`"), "{text}");
    }

    #[test]
    fn the_last_line_is_the_test_runners_own_summary() {
        let text = report(&entries(), Place::Desk);

        assert!(text.ends_with("5 tests run: 5 passed, 1 skipped\n"));
    }

    #[test]
    fn the_verdict_names_every_stage_that_failed_the_gate() {
        assert_eq!(failed(&entries(), Place::Desk), ["fmt"]);
        assert_eq!(failed(&entries(), Place::Ci), ["fmt", "interop"]);
        assert!(report(&entries(), Place::Ci).contains("ci FAILED: fmt, interop (4 s)"));
    }
}
