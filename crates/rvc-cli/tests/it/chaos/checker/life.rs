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
    /// When which process looked whether a foreign host has the outcome.
    pub(super) looks: Vec<(u64, u32)>,
    /// When which process delivered, and what.
    pub(super) deliveries: Vec<(u64, u32, &'a str)>,
    pub(super) finishes: Vec<(u64, &'a str)>,
    pub(super) delivered: Vec<&'a str>,
    pub(super) row: Option<&'a Row>,
}

/// What was seen of a run.
#[derive(Default)]
pub(super) struct Run {
    /// When its cancel was asked for, and heard.
    pub(super) cancelling: Option<u64>,
    pub(super) cancelled: Option<u64>,
    /// When which process asked a foreign host how it stands.
    pub(super) questions: Vec<(u64, u32)>,
}

/// Every action and every run, by name.
pub(super) fn read(entries: &[Entry]) -> (BTreeMap<&str, Life<'_>>, HashMap<&str, Run>) {
    let mut lives = BTreeMap::<&str, Life>::new();
    let mut runs = HashMap::<&str, Run>::new();
    for Entry { at, seen } in entries {
        let at = *at;
        match seen {
            Seen::Submitting(it) => lives.entry(&it.action).or_default().submitted = Some((at, it)),
            Seen::Submitted { action } => lives.entry(action).or_default().acknowledged = Some(at),
            Seen::Refused { action } => lives.entry(action).or_default().refused = true,
            Seen::Cancelling { action } => lives.entry(action).or_default().cancelling = Some(at),
            Seen::Cancelled { action } => lives.entry(action).or_default().cancelled = Some(at),
            Seen::CancelledTooLate { action } => lives.entry(action).or_default().too_late = true,
            Seen::CancellingRun { run } => runs.entry(run).or_default().cancelling = Some(at),
            Seen::CancelledRun { run } => runs.entry(run).or_default().cancelled = Some(at),
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
            Seen::AskedForRun { process, run } => {
                runs.entry(run).or_default().questions.push((at, *process));
            }
            Seen::Looked { process, action } => {
                lives.entry(action).or_default().looks.push((at, *process));
            }
            Seen::Delivering {
                process,
                action,
                phase,
            } => {
                let life = lives.entry(action).or_default();
                life.deliveries.push((at, *process, phase));
            }
            Seen::Finishing { action, state } => {
                lives.entry(action).or_default().finishes.push((at, state));
            }
            Seen::Delivered { action, phase } => {
                lives.entry(action).or_default().delivered.push(phase);
            }
            Seen::Repeated(_)
            | Seen::FaultBegan { .. }
            | Seen::FaultEnded { .. }
            | Seen::SupervisorEnded { .. } => {}
        }
    }
    (lives, runs)
}

impl Life<'_> {
    pub(super) fn is_foreign(&self) -> bool {
        self.submitted.is_some_and(|(_, it)| it.is_foreign)
    }

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
