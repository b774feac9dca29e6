//! How much must come off. Without it a run that loses everything would be as good as any.

use std::collections::BTreeMap;

use super::super::history::{Entry, Seen};
use super::life::Life;
use super::outcome::expected;
use super::{Judge, Violation};

impl Judge<'_> {
    /// Rule 9.
    pub(super) fn floors(&self, lives: &BTreeMap<&str, Life>, entries: &[Entry]) -> Vec<Violation> {
        let last_fault = entries.iter().rev().find(|entry| {
            matches!(
                entry.seen,
                Seen::FaultBegan { .. } | Seen::FaultEnded { .. }
            )
        });
        let calm_from = last_fault.map_or(0, |entry| entry.at + RECOVERY);
        let hopeful = || {
            lives
                .values()
                .filter(|life| self.is_hopeful(life))
                .filter_map(|life| Some((life.submitted?.0, life)))
        };
        let calm = hopeful().filter(|(at, _)| *at >= calm_from);
        [
            violation("over the whole run", hopeful().map(|it| it.1), OVER_ALL),
            violation("after the last fault", calm.map(|it| it.1), IN_CALM),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Whether nothing but a fault keeps it from its good end.
    fn is_hopeful(&self, life: &Life) -> bool {
        let Some((_, submitted)) = life.submitted else {
            return false;
        };
        life.acknowledged.is_some()
            && life.cancelling.is_none()
            && submitted.deadline_ms.is_none()
            && expected(&submitted.tool).is_none()
            && self
                .run(submitted)
                .is_none_or(|run| run.cancelling.is_none())
    }
}

fn violation<'a>(
    of: &str,
    lives: impl Iterator<Item = &'a Life<'a>>,
    percent: usize,
) -> Option<Violation> {
    let lives: Vec<_> = lives.collect();
    let completed = lives.iter().filter(|life| {
        let first = life.outcomes.first();
        first.is_some_and(|outcome| outcome.phase == "completed")
    });
    let completed = completed.count();
    let is_enough = completed * 100 >= lives.len() * percent;
    (lives.len() >= MEANINGFUL && !is_enough).then(|| Violation {
        of: of.to_owned(),
        what: format!(
            "{completed} of {} came off that nothing but faults may keep from it: fewer than \
             {percent} in a hundred",
            lives.len()
        ),
    })
}

/// In a hundred.
const OVER_ALL: usize = 60;
const IN_CALM: usize = 95;

/// Fewer say nothing.
const MEANINGFUL: usize = 20;

/// After the last fault, in microseconds: until everybody is there again.
const RECOVERY: u64 = 2_000_000;
