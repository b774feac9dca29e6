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
//! 6. What failed for want of an answer failed of a fault that can take it: of its server, or of
//!    the supervisor that held the start, as the database saw who that was; but for one start in
//!    a hundred whose lease ran out, as it may on a machine that is busy.
//! 7. Phases go only along the arrows, and a remote task is linked once.
//! 8. Nothing is open at the end.
//! 9. Of the actions that nothing but a fault keeps from a good end, most come to it; and nearly
//!    all that began when the faults were over.
//! 10. A foreign host takes each outcome once, and the one that the action has. It is not told
//!     again what it was asked for when it had it, nor what it said before that it had cancelled.

mod database;
mod floor;
mod foreign;
mod life;
mod lost;
mod outcome;
mod trouble;

use std::collections::{HashMap, HashSet};
use std::fmt;

use self::life::{Life, Run};
use self::trouble::Troubles;
use super::history::{Entry, Outcome, Seen, Submitted, Work};

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

/// All violations, by action.
pub(super) fn check(entries: &[Entry]) -> Vec<Violation> {
    let (lives, runs) = life::read(entries);
    let judge = Judge {
        runs,
        troubles: Troubles::read(entries),
        last_lives: last_lives(entries),
    };
    let mut violations = judge.troubles.supervisors(entries);
    for (action, life) in &lives {
        let mut found = Vec::new();
        judge.action(life, &mut found);
        violations.extend(found.into_iter().map(|what| Violation {
            of: (*action).to_owned(),
            what,
        }));
    }
    violations.extend(judge.floors(&lives, entries));
    let ran_out = |violation: &Violation| violation.what.starts_with(LEASE_RAN_OUT);
    let count = violations.iter().filter(|it| ran_out(it)).count();
    // A busy machine stops a process as well as a signal does, but not often.
    if count * 100 <= lives.len() {
        violations.retain(|violation| !ran_out(violation));
    }
    violations
}

const LEASE_RAN_OUT: &str = "nothing explains that the lease of its start ran out:";

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

struct Judge<'a> {
    runs: HashMap<&'a str, Run>,
    troubles: Troubles,
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
        database::writes(life, found);
        database::rows(life, found);
        let Some(outcome) = outcome::the_outcome(life, found) else {
            return;
        };
        let ended_at = life.ended_at().unwrap_or(u64::MAX);
        if submitted.is_foreign {
            let questions = self.run(submitted).map(|run| run.questions.as_slice());
            foreign::told(life, outcome, questions.unwrap_or_default(), found);
        } else {
            self.cancels(life, submitted, outcome, ended_at, found);
        }
        outcome::result(life, submitted, outcome, found);
        self.failure(life, submitted, outcome, asked_at..ended_at, found);
        self.clean_up(life, outcome, found);
    }

    fn run(&self, submitted: &Submitted) -> Option<&Run> {
        self.runs.get(submitted.run.as_str())
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

/// As the supervisor's settings have them.
const START_LIMIT: usize = 5;
const CANCEL_ATTEMPTS: u64 = 20;

#[cfg(test)]
mod tests;
