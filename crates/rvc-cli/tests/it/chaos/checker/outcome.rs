//! Whether an outcome is the one that the action should have.

use super::super::history::{Outcome, Submitted};
use super::super::schedule::Fault;
use super::life::Life;
use super::lost::is_forsaken;
use super::{Judge, LEASE_RAN_OUT};

impl Judge<'_> {
    /// Rule 4.
    pub(super) fn cancels(
        &self,
        life: &Life,
        submitted: &Submitted,
        outcome: &Outcome,
        ended_at: u64,
        found: &mut Vec<String>,
    ) {
        let is_cancelled = outcome.error_code.as_deref() == Some("CANCELLED");
        let run = self.run(submitted);
        if life.cancelled.is_some() && !is_cancelled {
            found.push(format!(
                "its cancel was acknowledged, and it is {outcome:?}"
            ));
        }
        let run_cancelled = run.and_then(|run| run.cancelled);
        if run_cancelled.is_some_and(|at| at < ended_at) && !is_cancelled {
            found.push(format!(
                "its run was cancelled before it ended: {outcome:?}"
            ));
        }
        let asked = life
            .cancelling
            .into_iter()
            .chain(run.and_then(|run| run.cancelling));
        if is_cancelled && asked.min().is_none_or(|at| at > ended_at) {
            found.push("it is CANCELLED, and nobody had asked for that".to_owned());
        }
        if is_cancelled != (outcome.phase == "cancelled") && outcome.phase != "cancelled" {
            found.push(format!("phase and code differ: {outcome:?}"));
        }
        if life.too_late && life.cancelled.is_some() {
            found.push("a cancel was both final and too late".to_owned());
        }
    }

    /// Rule 6.
    pub(super) fn failure(
        &self,
        life: &Life,
        submitted: &Submitted,
        outcome: &Outcome,
        window: std::ops::Range<u64>,
        found: &mut Vec<String>,
    ) {
        let Some(code) = outcome.error_code.as_deref() else {
            return;
        };
        let server = submitted.server;
        let restarted = || {
            self.troubles
                .any(&window, |fault| fault == Fault::RestartServer(server))
        };
        let is_explained = match code {
            "CANCELLED" => true,
            "TOOL_ERROR" | "-32050" | "-32001" | "SPILLED" => {
                expected(&submitted.tool) == Some(code)
            }
            "EXECUTION_DEADLINE_EXCEEDED" => submitted
                .deadline_ms
                .is_some_and(|limit| window.end >= window.start + limit * 1_000),
            "START_OUTCOME_UNKNOWN" => self.was_lost(life, server, outcome, window.end),
            "REMOTE_TASK_MISSING" => submitted.tool != "dock" && restarted(),
            "SERVER_RESTARTED" => {
                matches!(submitted.tool.as_str(), "dock" | "spill") && restarted()
            }
            _ => false,
        };
        if !is_explained {
            let what = if is_forsaken(outcome) {
                LEASE_RAN_OUT
            } else {
                "nothing explains"
            };
            found.push(format!("{what} {outcome:?}"));
        }
        if code == "START_OUTCOME_UNKNOWN"
            && submitted.policy != "at_most_once"
            && life.starts.is_empty()
        {
            found.push("it may be sent again, was never started, and is given up".to_owned());
        }
    }
}

/// Rule 1.
pub(super) fn the_outcome<'a>(life: &Life<'a>, found: &mut Vec<String>) -> Option<&'a Outcome> {
    let Some((&first, others)) = life.outcomes.split_first() else {
        found.push("it has no outcome".to_owned());
        return None;
    };
    if others.iter().any(|other| *other != first) {
        found.push(format!("two outcomes: {:?}", life.outcomes));
    }
    let code = first.error_code.as_deref().unwrap_or_default();
    let told = format!("{} {code}", first.phase);
    let written = life.wrote.iter().find(|(_, wrote)| wrote.what == "outcome");
    let is_suppressed = life.is_foreign() && first.phase == "cancelled";
    if let Some((_, wrote)) = written
        && !is_suppressed
        && wrote.after.as_deref() != Some(told.as_str())
    {
        found.push(format!("told {told}, and written was {wrote:?}"));
    }
    if let Some(row) = life.row
        && row.phase != first.phase
    {
        found.push(format!("told {told}, and the row says {row:?}"));
    }
    Some(first)
}

/// Rule 5.
pub(super) fn result(
    life: &Life,
    submitted: &Submitted,
    outcome: &Outcome,
    found: &mut Vec<String>,
) {
    let status = match outcome.error_code.as_deref() {
        None if outcome.phase == "completed" => "completed",
        None => {
            found.push(format!("a failure without a code: {outcome:?}"));
            return;
        }
        Some("TOOL_ERROR") => "error",
        Some("-32050" | "-32001" | "SPILLED") => "failed",
        Some(_) => {
            if outcome.said.contains('<') {
                found.push(format!("it has a result, and must not: {outcome:?}"));
            }
            return;
        }
    };
    let is_its_own = life.ends.iter().any(|end| {
        outcome.said.contains(&end.value)
            && end.status == status
            && life
                .starts
                .iter()
                .any(|(_, start)| start.value == end.value)
    });
    if !is_its_own {
        found.push(format!("no end of its own says so: {outcome:?}"));
    }
    if status == "completed" && expected(&submitted.tool).is_some() {
        found.push(format!("{} cannot succeed: {outcome:?}", submitted.tool));
    }
}

/// The code that a tool fails with, if it runs to its end.
pub(super) fn expected(tool: &str) -> Option<&'static str> {
    Some(match tool {
        "jam" | "scratch" => "TOOL_ERROR",
        "fall" => "-32050",
        "refuse" => "-32001",
        "spill" => "SPILLED",
        "roam" => "never",
        _ => return None,
    })
}
