//! What gave way in a full queue, told once a minute (contract decision 15).

use std::collections::BTreeMap;
use std::time::Duration;

use rvc_wire::TaskId;
use tokio::time::Instant;

use crate::line::ShedKind;

/// Collects counts until the next report is due.
#[derive(Debug, Default)]
pub(crate) struct ShedLog {
    counts: ShedReport,
    last_report: Option<Instant>,
    due: Option<Instant>,
}

/// How many events of which kinds gave way since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShedReport {
    pub(crate) superseded_progress: usize,
    pub(crate) latest_progress: usize,
    pub(crate) watch_events: usize,
    pub(crate) triggers: usize,
    /// How many of each task.
    pub(crate) tasks: BTreeMap<TaskId, usize>,
}

impl ShedLog {
    pub(crate) fn add(&mut self, task: &TaskId, kind: ShedKind, now: Instant) {
        let counts = &mut self.counts;
        *match kind {
            ShedKind::SupersededProgress => &mut counts.superseded_progress,
            ShedKind::LatestProgress => &mut counts.latest_progress,
            ShedKind::WatchEvent => &mut counts.watch_events,
            ShedKind::Trigger => &mut counts.triggers,
        } += 1;
        if let Some(count) = counts.tasks.get_mut(task) {
            *count += 1;
        } else {
            counts.tasks.insert(task.clone(), 1);
        }
        if self.due.is_none() {
            let earliest = self.last_report.map_or(now, |last| last + MINUTE);
            self.due = Some(earliest.max(now));
        }
    }

    /// When the next report is due: the first at once, then one a minute.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The report, if it is due.
    pub(crate) fn report(&mut self, now: Instant) -> Option<ShedReport> {
        if self.due? > now {
            return None;
        }
        self.last_report = Some(now);
        self.report_rest()
    }

    /// What has not been reported, due or not.
    pub(crate) fn report_rest(&mut self) -> Option<ShedReport> {
        self.due.take()?;
        Some(std::mem::take(&mut self.counts))
    }
}

impl ShedReport {
    pub(crate) fn total(&self) -> usize {
        self.superseded_progress + self.latest_progress + self.watch_events + self.triggers
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_rest_once_a_minute() {
        let start = Instant::now();
        let task: TaskId = "nav-1".parse().unwrap();
        let mut log = ShedLog::default();
        let mut reports = Vec::new();
        for tenth in 0..1_300 {
            let now = start + Duration::from_millis(100) * tenth;
            log.add(&task, ShedKind::SupersededProgress, now);
            if let Some(report) = log.report(now) {
                reports.push((now.duration_since(start).as_secs(), report.total()));
            }
        }
        assert_eq!(reports, [(0, 1), (60, 600), (120, 600)]);

        log.add(&task, ShedKind::Trigger, start);
        let rest = log.report_rest().unwrap();
        assert_eq!((rest.superseded_progress, rest.triggers), (99, 1));
        assert_eq!(rest.tasks[&task], 100);
        assert_eq!(log.report_rest(), None);
        assert_eq!(log.due(), None);
    }
}
