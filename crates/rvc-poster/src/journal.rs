//! What a poster logs. Lines about an event are written inside the event's own span.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rvc_wire::{ServerName, TaskId};
use tokio::time::Instant;

use crate::delivery_error::DeliveryError;
use crate::outbox::{Attempt, GivenUp};
use crate::shed_log::ShedReport;
use crate::{CloseReport, Endpoint, OutgoingEvent};

/// Writes a line about an event with the fields that every one of them has.
macro_rules! event_line {
    ($level:ident, $server:expr, $event:expr, $($rest:tt)+) => {
        $event.span().in_scope(|| {
            tracing::$level!(
                server = %$server,
                task_id = %$event.task_id(),
                tool = %$event.tool(),
                event_id = %$event.event_id(),
                seq = $event.seq().get(),
                r#type = $event.event_type().as_str(),
                $($rest)+
            );
        })
    };
}

pub(crate) fn enabled(server: &ServerName, endpoint: &Endpoint) {
    tracing::info!(%server, %endpoint, "events are posted");
}

pub(crate) fn disabled(server: &ServerName) {
    tracing::info!(%server, "there is no endpoint, events are logged at DEBUG and not posted");
}

pub(crate) fn not_posted(server: &ServerName, event: &OutgoingEvent) {
    event_line!(
        debug,
        server,
        event,
        "event not posted, there is no endpoint"
    );
}

/// The first one is told loudly.
pub(crate) fn refused_after_close(server: &ServerName, event: &OutgoingEvent, refused: usize) {
    if refused == 1 {
        event_line!(
            warn,
            server,
            event,
            refused,
            "event dropped, the poster is closed"
        );
    } else {
        event_line!(
            debug,
            server,
            event,
            refused,
            "event dropped, the poster is closed"
        );
    }
}

pub(crate) fn no_runtime(server: &ServerName) {
    tracing::warn!(
        %server,
        "events wait, the poster has not been used inside a tokio runtime yet"
    );
}

pub(crate) fn acknowledged(server: &ServerName, attempt: &Attempt, took: Duration) {
    event_line!(
        debug,
        server,
        attempt.event,
        attempt = attempt.number,
        duration_ms = millis(took),
        "event acknowledged"
    );
}

pub(crate) fn failed(
    server: &ServerName,
    attempt: &Attempt,
    error: &DeliveryError,
    took: Duration,
    retry_in: Duration,
) {
    event_line!(
        warn,
        server,
        attempt.event,
        attempt = attempt.number,
        duration_ms = millis(took),
        retry_in_ms = millis(retry_in),
        answer = error.answer(),
        error = %error.chain(),
        "attempt to deliver an event failed"
    );
}

/// What a task whose cancel was accepted had still to send.
pub(crate) fn forgotten(server: &ServerName, task: &TaskId, events: usize) {
    tracing::info!(
        %server,
        task_id = %task,
        events,
        "events that were not sent yet were dropped, their task was cancelled"
    );
}

/// An attempt that was under way when its task was cancelled.
pub(crate) fn not_repeated(
    server: &ServerName,
    attempt: &Attempt,
    error: &DeliveryError,
    took: Duration,
) {
    event_line!(
        info,
        server,
        attempt.event,
        attempt = attempt.number,
        duration_ms = millis(took),
        answer = error.answer(),
        error = %error.chain(),
        "attempt to deliver an event failed and is not repeated, its task was cancelled"
    );
}

pub(crate) fn gave_up(server: &ServerName, given_up: &GivenUp) {
    let last_error = given_up.last_error.as_deref();
    event_line!(
        error,
        server,
        given_up.event,
        attempts = given_up.attempts,
        answer = last_error.and_then(DeliveryError::answer),
        error = last_error.map(|error| tracing::field::display(error.chain())),
        "event given up"
    );
}

/// An ERROR where a trigger went: somebody waits for it (contract decision 15).
pub(crate) fn shed(server: &ServerName, report: &ShedReport) {
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                %server,
                events = report.total(),
                superseded_progress = report.superseded_progress,
                latest_progress = report.latest_progress,
                watch_events = report.watch_events,
                triggers = report.triggers,
                tasks = %TaskList(&report.tasks),
                "the queue is full, events were dropped"
            )
        };
    }
    if report.triggers > 0 {
        line!(error);
    } else {
        line!(warn);
    }
}

pub(crate) fn skewed(server: &ServerName, ahead_s: i64) {
    let skew_s = ahead_s.unsigned_abs();
    let direction = if ahead_s > 0 { "ahead of" } else { "behind" };
    tracing::warn!(
        %server,
        skew_s,
        direction,
        "this clock is {skew_s} s {direction} the endpoint's; more than 300 s and it refuses events"
    );
}

pub(crate) fn closed(server: &ServerName, report: &CloseReport, since: Instant) {
    if report.is_complete() {
        tracing::debug!(%server, duration_ms = millis(since.elapsed()), "poster closed");
    } else {
        tracing::warn!(
            %server,
            events = report.total(),
            tasks = %TaskList(&report.undelivered),
            duration_ms = millis(since.elapsed()),
            "poster closed with events undelivered"
        );
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Tasks and how many events of each; the rest of a long list is counted.
struct TaskList<'a>(&'a BTreeMap<TaskId, usize>);

impl fmt::Display for TaskList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (task, events)) in self.0.iter().take(MOST_LISTED).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{task}: {events}")?;
        }
        match self.0.len().saturating_sub(MOST_LISTED) {
            0 => Ok(()),
            more => write!(f, " and {more} more tasks"),
        }
    }
}

const MOST_LISTED: usize = 50;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_long_list_of_tasks_is_cut() {
        let tasks = |count: usize| {
            (0..count)
                .map(|task| (format!("t-{task:03}").parse().unwrap(), 2))
                .collect()
        };
        assert_eq!(TaskList(&tasks(2)).to_string(), "t-000: 2, t-001: 2");
        assert!(
            TaskList(&tasks(53))
                .to_string()
                .ends_with("t-049: 2 and 3 more tasks")
        );
    }
}
