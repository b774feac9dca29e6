//! Judges a run by its histories alone: it knows no store, no database and no schedule.
//!
//! 1. Each action that was acknowledged has one outcome, told the same whenever it is told.
//! 2. At most one start under `at_most_once`, over all servers and their lives; under
//!    `server_dedup` at most one in each life of its server.
//! 3. The database saw one insert of the outcome and one step of the action's state from
//!    pending, in one transaction, and never a change of either: no delivery twice.
//! 4. After a cancel was acknowledged there is no outcome but `cancelled`, and without a wish to
//!    cancel there is no `CANCELLED`.
//! 5. A result is one that this action's server wrote down, for this action, as it ended.
//! 6. What failed for want of an answer failed while there were faults that can take it; but for
//!    one start in a hundred whose lease ran out, as it may on a machine that is busy.
//! 7. Phases go only along the arrows, and a remote task is linked once.
//! 8. Nothing is open at the end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use super::history::{Entry, Outcome, Row, Seen, Submitted, Work, Wrote};
use super::schedule::Fault;

/// A fact that must not be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The action, or what else it is about.
    pub(super) of: String,
    pub(super) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.of, self.what)
    }
}

/// Everything that was seen of one action.
#[derive(Default)]
struct Life<'a> {
    submitted: Option<(u64, &'a Submitted)>,
    acknowledged: Option<u64>,
    refused: bool,
    cancelling: Option<u64>,
    cancelled: Option<u64>,
    too_late: bool,
    outcomes: Vec<&'a Outcome>,
    starts: Vec<(u64, &'a Work)>,
    ends: Vec<&'a Work>,
    cancels_received: Vec<&'a Work>,
    wrote: Vec<(u64, &'a Wrote)>,
    row: Option<&'a Row>,
}

/// A fault, from when to when.
struct Trouble {
    fault: Fault,
    from: u64,
    to: u64,
}

/// All violations, by action.
pub(super) fn check(entries: &[Entry]) -> Vec<Violation> {
    let mut lives = BTreeMap::<&str, Life>::new();
    let mut runs = HashMap::<&str, RunCancel>::new();
    for Entry { at, seen } in entries {
        let at = *at;
        match seen {
            Seen::Submitting(it) => lives.entry(&it.action).or_default().submitted = Some((at, it)),
            Seen::Submitted { action } => lives.entry(action).or_default().acknowledged = Some(at),
            Seen::Refused { action } => lives.entry(action).or_default().refused = true,
            Seen::Cancelling { action } => lives.entry(action).or_default().cancelling = Some(at),
            Seen::Cancelled { action } => lives.entry(action).or_default().cancelled = Some(at),
            Seen::CancelledTooLate { action } => lives.entry(action).or_default().too_late = true,
            Seen::CancellingRun { run } => runs.entry(run).or_default().asked = Some(at),
            Seen::CancelledRun { run } => runs.entry(run).or_default().acknowledged = Some(at),
            Seen::Outcome(it) => lives.entry(&it.action).or_default().outcomes.push(it),
            Seen::Start(work) => lives
                .entry(&work.action)
                .or_default()
                .starts
                .push((at, work)),
            Seen::End(work) => lives.entry(&work.action).or_default().ends.push(work),
            Seen::CancelReceived(work) => lives
                .entry(&work.action)
                .or_default()
                .cancels_received
                .push(work),
            Seen::Wrote(it) => lives.entry(&it.action).or_default().wrote.push((at, it)),
            Seen::Row(row) => lives.entry(&row.action).or_default().row = Some(row),
            Seen::Repeated(_)
            | Seen::FaultBegan { .. }
            | Seen::FaultEnded { .. }
            | Seen::SupervisorEnded { .. } => {}
        }
    }
    let judge = Judge {
        runs,
        troubles: troubles(entries),
        last_lives: last_lives(entries),
    };
    let mut violations = supervisors(entries, &judge.troubles);
    for (action, life) in &lives {
        let mut found = Vec::new();
        judge.action(life, &mut found);
        violations.extend(found.into_iter().map(|what| Violation {
            of: (*action).to_owned(),
            what,
        }));
    }
    let ran_out = |violation: &Violation| violation.what.starts_with(LEASE_RAN_OUT);
    let count = violations.iter().filter(|it| ran_out(it)).count();
    // A busy machine stops a process as well as a signal does, but not often.
    if count * 100 <= lives.len() {
        violations.retain(|violation| !ran_out(violation));
    }
    violations
}

const LEASE_RAN_OUT: &str = "nothing explains that the lease of its start ran out:";

#[derive(Default)]
struct RunCancel {
    asked: Option<u64>,
    acknowledged: Option<u64>,
}

fn troubles(entries: &[Entry]) -> Vec<Trouble> {
    let mut troubles = Vec::<Trouble>::new();
    for entry in entries {
        match entry.seen {
            Seen::FaultBegan { fault } => troubles.push(Trouble {
                fault,
                from: entry.at,
                to: u64::MAX,
            }),
            Seen::FaultEnded { fault } => {
                let open =
                    |trouble: &&mut Trouble| trouble.fault == fault && trouble.to == u64::MAX;
                if let Some(trouble) = troubles.iter_mut().rev().find(open) {
                    trouble.to = entry.at;
                }
            }
            _ => {}
        }
    }
    troubles
}

/// The life in which each server was seen last.
fn last_lives(entries: &[Entry]) -> HashMap<usize, u32> {
    let mut last = HashMap::new();
    for entry in entries {
        if let Seen::Start(work) | Seen::End(work) | Seen::CancelReceived(work) = &entry.seen {
            let life = last.entry(work.server).or_default();
            *life = work.life.max(*life);
        }
    }
    last
}

/// A supervisor may end by itself only where it could not reach its database.
fn supervisors(entries: &[Entry], troubles: &[Trouble]) -> Vec<Violation> {
    let ended = entries.iter().filter_map(|entry| match &entry.seen {
        Seen::SupervisorEnded { supervisor, status } => Some((entry.at, *supervisor, status)),
        _ => None,
    });
    let unexplained = ended.filter(|(at, supervisor, _)| {
        !troubles.iter().any(|trouble| {
            let of_database = match trouble.fault {
                Fault::CrashDatabase => true,
                Fault::CutDatabase(n)
                | Fault::RefuseDatabase(n)
                | Fault::StallDatabase(n)
                | Fault::LoseDatabaseAnswer(n) => n == *supervisor,
                _ => false,
            };
            of_database && trouble.from <= *at && *at <= trouble.to.saturating_add(OPENING)
        })
    });
    unexplained
        .map(|(_, supervisor, status)| Violation {
            of: format!("supervisor {supervisor}"),
            what: format!("it ended by itself, and its database was there: {status}"),
        })
        .collect()
}

struct Judge<'a> {
    runs: HashMap<&'a str, RunCancel>,
    troubles: Vec<Trouble>,
    last_lives: HashMap<usize, u32>,
}

impl Judge<'_> {
    fn action(&self, life: &Life, found: &mut Vec<String>) {
        let Some((asked_at, submitted)) = life.submitted else {
            found.push("it was never submitted, and was seen".to_owned());
            return;
        };
        if life.acknowledged.is_none() {
            if !life.refused {
                found.push("its submission was neither acknowledged nor refused".to_owned());
            } else if !life.starts.is_empty() || life.row.is_some() {
                found.push("it was refused, and yet it is there".to_owned());
            }
            return;
        }
        starts(life, submitted, found);
        writes(life, found);
        rows(life, found);
        let Some(outcome) = the_outcome(life, found) else {
            return;
        };
        let ended_at = ended_at(life).unwrap_or(u64::MAX);
        self.cancels(life, submitted, outcome, ended_at, found);
        result(life, submitted, outcome, found);
        self.failure(life, submitted, outcome, asked_at..ended_at, found);
        self.clean_up(life, outcome, found);
    }

    /// Rule 4.
    fn cancels(
        &self,
        life: &Life,
        submitted: &Submitted,
        outcome: &Outcome,
        ended_at: u64,
        found: &mut Vec<String>,
    ) {
        let is_cancelled = outcome.error_code.as_deref() == Some("CANCELLED");
        let run = self.runs.get(submitted.run.as_str());
        if life.cancelled.is_some() && !is_cancelled {
            found.push(format!(
                "its cancel was acknowledged, and it is {outcome:?}"
            ));
        }
        let run_cancelled = run.and_then(|run| run.acknowledged);
        if run_cancelled.is_some_and(|at| at < ended_at) && !is_cancelled {
            found.push(format!(
                "its run was cancelled before it ended: {outcome:?}"
            ));
        }
        let asked = life
            .cancelling
            .into_iter()
            .chain(run.and_then(|run| run.asked));
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
    fn failure(
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
        let restarted = || self.any(&window, |fault| fault == Fault::RestartServer(server));
        let is_explained = match code {
            "CANCELLED" => true,
            "TOOL_ERROR" | "-32050" | "-32001" | "SPILLED" => {
                expected(&submitted.tool) == Some(code)
            }
            "EXECUTION_DEADLINE_EXCEEDED" => submitted
                .deadline_ms
                .is_some_and(|limit| window.end >= window.start + limit * 1_000),
            "START_OUTCOME_UNKNOWN" => {
                self.any(&(sent_at(life)..window.end), |fault| match fault {
                    Fault::CutServer(n)
                    | Fault::StallServer(n)
                    | Fault::RestartServer(n)
                    | Fault::LoseServerAnswer(n)
                    | Fault::DelayServer(n) => n == server,
                    // Of the process that sent it, whichever that was. The host sends nothing.
                    Fault::KillSupervisor(_) | Fault::StopSupervisor(_) | Fault::CrashDatabase => {
                        true
                    }
                    // In order: it finishes what it has begun.
                    Fault::EndSupervisor(_) => false,
                    Fault::CutDatabase(n)
                    | Fault::RefuseDatabase(n)
                    | Fault::StallDatabase(n)
                    | Fault::LoseDatabaseAnswer(n) => n < super::schedule::SUPERVISORS,
                })
            }
            "REMOTE_TASK_MISSING" => submitted.tool != "dock" && restarted(),
            "SERVER_RESTARTED" => {
                matches!(submitted.tool.as_str(), "dock" | "spill") && restarted()
            }
            _ => false,
        };
        if !is_explained {
            let what = if outcome.said.contains("ended before it recorded an answer") {
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

    /// Whether such a fault lasted, or had just ended, in the window.
    fn any(&self, window: &std::ops::Range<u64>, is_one: impl Fn(Fault) -> bool) -> bool {
        self.troubles.iter().any(|trouble| {
            is_one(trouble.fault)
                && trouble.from <= window.end
                && trouble.to.saturating_add(AFTERMATH) >= window.start
        })
    }

    /// The host's cancel reaches a server that lives on, unless its patience ended before.
    fn clean_up(&self, life: &Life, outcome: &Outcome, found: &mut Vec<String>) {
        let code = outcome.error_code.as_deref();
        if !matches!(code, Some("CANCELLED" | "EXECUTION_DEADLINE_EXCEEDED")) {
            return;
        }
        let Some(row) = life.row else { return };
        let (true, [(_, start)]) = (row.remote_task.is_some(), life.starts.as_slice()) else {
            return;
        };
        let lives_on = self.last_lives.get(&start.server) == Some(&start.life);
        let is_over = life.cancels_received.iter().chain(&life.ends);
        let reached = is_over.into_iter().any(|work| work.value == start.value);
        if lives_on && !reached && row.cancels_asked < CANCEL_ATTEMPTS {
            found.push("its server lives, and was never asked to cancel".to_owned());
        }
    }
}

/// When the last start was about to be sent. Nothing that was over long before explains why its
/// answer is missing.
fn sent_at(life: &Life) -> u64 {
    let phases = life.wrote.iter().rev();
    let sending = |wrote: &&(u64, &Wrote)| {
        wrote.1.what == "phase" && wrote.1.after.as_deref() == Some("sending")
    };
    phases
        .filter(sending)
        .map(|(at, _)| *at)
        .next()
        .unwrap_or(u64::MAX)
}

/// Rule 2.
fn starts(life: &Life, submitted: &Submitted, found: &mut Vec<String>) {
    let starts: Vec<&Work> = life.starts.iter().map(|(_, work)| *work).collect();
    if let Some(stray) = starts.iter().find(|work| work.server != submitted.server) {
        found.push(format!("it was started at another server: {stray:?}"));
    }
    match submitted.policy.as_str() {
        "at_most_once" if starts.len() > 1 => {
            found.push(format!(
                "{} starts under at_most_once: {starts:?}",
                starts.len()
            ));
        }
        "server_dedup" => {
            let lives: HashSet<u32> = starts.iter().map(|work| work.life).collect();
            if lives.len() < starts.len() {
                found.push(format!("its key was another one: {starts:?}"));
            }
        }
        _ => {}
    }
    if starts.len() > START_LIMIT {
        found.push(format!("{} starts", starts.len()));
    }
}

/// Rules 3 and 7.
fn writes(life: &Life, found: &mut Vec<String>) {
    let of = |what: &str| -> Vec<&Wrote> {
        let all = life.wrote.iter().map(|(_, wrote)| *wrote);
        all.filter(|wrote| wrote.what == what).collect()
    };
    let outcomes = of("outcome");
    match outcomes.as_slice() {
        [one] if one.change == "INSERT" => {}
        _ => found.push(format!("its outcome was not written once: {outcomes:?}")),
    }
    let mut actions = of("action");
    actions.retain(|wrote| {
        wrote.change != "INSERT" && (wrote.before != wrote.after || wrote.after.is_none())
    });
    match actions.as_slice() {
        [one] if one.change == "UPDATE" && one.before.as_deref() == Some("pending") => {
            let with_it = outcomes
                .iter()
                .all(|outcome| outcome.transaction == one.transaction);
            if !with_it {
                found.push(format!("state and outcome apart: {one:?}, {outcomes:?}"));
            }
        }
        _ => found.push(format!("its state did not change once: {actions:?}")),
    }
    for wrote in of("phase") {
        let arrow = (
            wrote.before.as_deref().unwrap_or_default(),
            wrote.after.as_deref().unwrap_or_default(),
        );
        if !is_arrow(arrow) {
            found.push(format!("a phase went astray: {wrote:?}"));
        }
    }
    let links = of("linkage");
    if links.len() > 1 || links.iter().any(|link| link.before.is_some()) {
        found.push(format!("it was linked more than once: {links:?}"));
    }
}

fn is_arrow((before, after): (&str, &str)) -> bool {
    match before {
        "intent" => matches!(after, "sending" | "cancelled" | "failed"),
        "sending" => !matches!(after, "accepted" | "expired" | "input_required"),
        "working" => !matches!(after, "intent" | "sending" | "accepted" | "unknown"),
        "input_required" => matches!(after, "working" | "completed" | "failed" | "cancelled"),
        _ => false,
    }
}

/// Rule 8.
fn rows(life: &Life, found: &mut Vec<String>) {
    let Some(row) = life.row else {
        found.push("it was acknowledged, and is not there".to_owned());
        return;
    };
    if row.is_open || row.state == "pending" || !FINAL.contains(&row.phase.as_str()) {
        found.push(format!("it is stuck: {row:?}"));
    }
}

/// Rule 1.
fn the_outcome<'a>(life: &Life<'a>, found: &mut Vec<String>) -> Option<&'a Outcome> {
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
    if let Some((_, wrote)) = written
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

fn ended_at(life: &Life) -> Option<u64> {
    let written = life.wrote.iter().find(|(_, wrote)| wrote.what == "outcome");
    written.map(|(at, _)| *at)
}

/// Rule 5.
fn result(life: &Life, submitted: &Submitted, outcome: &Outcome, found: &mut Vec<String>) {
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
fn expected(tool: &str) -> Option<&'static str> {
    Some(match tool {
        "jam" | "scratch" => "TOOL_ERROR",
        "fall" => "-32050",
        "refuse" => "-32001",
        "spill" => "SPILLED",
        "roam" => "never",
        _ => return None,
    })
}

const FINAL: [&str; 5] = ["completed", "failed", "cancelled", "expired", "unknown"];

/// What a fault broke shows for a while: connections are found broken, leases run out.
const AFTERMATH: u64 = 6_000_000;

/// How long a supervisor that starts may try to reach its database, in microseconds like the
/// other.
const OPENING: u64 = 12_000_000;

/// As the supervisor's settings have them.
const START_LIMIT: usize = 5;
const CANCEL_ATTEMPTS: u64 = 20;

#[cfg(test)]
mod tests;
