//! Everything that was seen of one action.

use std::collections::{BTreeMap, HashMap};

use super::super::history::{Entry, Outcome, Row, Seen, Submitted, Work, Wrote};

#[derive(Default)]
pub(super) struct Life<'a> {
    pub(super) submitted: Option<(u64, &'a Submitted)>,
    pub(super) acknowledged: Option<u64>,
    pub(super) refused: bool,
    pub(super) cancelling: Option<u64>,
    pub(super) cancelled: Option<u64>,
    pub(super) too_late: bool,
    pub(super) outcomes: Vec<&'a Outcome>,
    pub(super) starts: Vec<(u64, &'a Work)>,
    pub(super) ends: Vec<&'a Work>,
    pub(super) cancels_received: Vec<&'a Work>,
    pub(super) wrote: Vec<(u64, &'a Wrote)>,
    pub(super) row: Option<&'a Row>,
}

/// What was done to a run.
#[derive(Default)]
pub(super) struct RunCancel {
    pub(super) asked: Option<u64>,
    pub(super) acknowledged: Option<u64>,
}

/// Every action and every run, by name.
pub(super) fn read(entries: &[Entry]) -> (BTreeMap<&str, Life<'_>>, HashMap<&str, RunCancel>) {
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
    (lives, runs)
}

impl Life<'_> {
    /// When the last start was about to be sent, and by which supervisor.
    pub(super) fn sent(&self) -> Option<(u64, Option<usize>)> {
        let is_sending =
            |wrote: &Wrote| wrote.what == "phase" && wrote.after.as_deref() == Some("sending");
        let mut phases = self.wrote.iter().rev();
        let (at, wrote) = phases.find(|(_, wrote)| is_sending(wrote))?;
        Some((*at, wrote.supervisor()))
    }

    pub(super) fn ended_at(&self) -> Option<u64> {
        let written = self.wrote.iter().find(|(_, wrote)| wrote.what == "outcome");
        written.map(|(at, _)| *at)
    }
}
