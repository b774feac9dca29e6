//! The named log events, and the metrics.
//!
//! From INFO up a remote id appears as a short hash; in full only at DEBUG.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::linkage::Linkage;
use crate::phase::Phase;
use crate::plan;
use crate::store::Census;
use crate::submission::hex;

/// A remote id as logs show it.
pub(crate) fn short_hash(id: &str) -> String {
    hex(&Sha256::digest(id)[..6])
}

/// The remote task of a row as logs show it; empty while there is none.
pub(crate) fn remote(row: &Linkage) -> String {
    row.remote
        .as_ref()
        .map(|remote| short_hash(&remote.id))
        .unwrap_or_default()
}

/// A server's text as logs show it: where it names the remote task of a row, which servers like to
/// do, the name is a hash here too.
pub(crate) fn shown(row: &Linkage, text: &str) -> String {
    let Some(remote) = row.remote.as_ref().filter(|remote| !remote.id.is_empty()) else {
        return text.to_owned();
    };
    let hash = short_hash(&remote.id);
    let mut text = text.to_owned();
    for id in spellings(&remote.id) {
        text = text.replace(&id, &hash);
        // The beginning of an answer may end within the id.
        if let Some(whole) = text.strip_suffix(CUT)
            && let Some(rest) = begun(&id, whole)
        {
            text = format!("{}{hash}{CUT}", &whole[..rest]);
        }
    }
    text
}

/// An id as it is, and as it is inside of JSON.
fn spellings(id: &str) -> [String; 2] {
    let json = serde_json::Value::from(id).to_string();
    [id.to_owned(), json[1..json.len() - 1].to_owned()]
}

/// Where the beginning of `id` with which `text` ends begins, if there is more of it than of many
/// other texts.
fn begun(id: &str, text: &str) -> Option<usize> {
    let mut tails = id.char_indices().rev().map(|(end, _)| &id[..end]);
    let tail = tails.find(|tail| text.ends_with(tail))?;
    if tail.len() < 4 {
        return None;
    }
    Some(text.len() - tail.len())
}

/// What is at the end of a text that was cut.
pub(crate) const CUT: char = '…';

/// An event about a row, with all its fields.
macro_rules! event {
    ($level:ident, $name:expr, $row:expr $(, $field:ident = $value:expr)* $(,)?) => {
        tracing::$level!(
            run_id = %$row.run,
            action_id = %$row.action,
            registration_id = %$row.registration,
            remote_task_id = %$crate::log::remote($row),
            tool_call_id = $row.tool_call_id.as_deref().unwrap_or_default(),
            provider_name = $row.provider.as_deref().unwrap_or_default(),
            $($field = $value,)*
            "{}",
            $name
        )
    };
}
pub(crate) use event;

/// Logs and counts what changed between two versions of a row.
pub(crate) fn transition(before: &Linkage, after: &Linkage) {
    if let (None, Some(remote)) = (&before.remote, &after.remote) {
        event!(info, "MCP_TASK_CREATED", after, kind = remote.kind.as_str());
        tracing::debug!(action_id = %after.action, remote_task_id = remote.id, "remote task");
    }
    if after.clean_up.asked > before.clean_up.asked {
        let acknowledged = after.clean_up.acknowledged_at.is_some();
        event!(
            info,
            "MCP_TASK_CANCEL_REQUESTED",
            after,
            acknowledged = acknowledged
        );
    }
    if before.phase != after.phase && after.phase == Phase::Working {
        event!(info, "MCP_TASK_WORKING", after);
    }
    let mut asked = after.input_requests.keys();
    if asked.any(|key| !before.input_requests.contains_key(key)) {
        event!(info, "MCP_TASK_INPUT_REQUIRED", after);
    }
    if let (None, Some(outcome)) = (&before.outcome, &after.outcome) {
        let code = outcome.error_code.as_ref().map_or("", |code| code.as_str());
        let (code, message) = (shown(after, code), shown(after, &outcome.message));
        match outcome.phase {
            Phase::Completed => event!(info, "MCP_TASK_COMPLETED", after),
            Phase::Cancelled => event!(info, "MCP_TASK_CANCELLED", after, error_code = code),
            Phase::Expired => {
                event!(
                    warn,
                    "MCP_TASK_EXPIRED",
                    after,
                    error_code = code,
                    reason = message
                );
            }
            _ => {
                event!(
                    warn,
                    "MCP_TASK_FAILED",
                    after,
                    error_code = code,
                    reason = message
                );
            }
        }
        ended(outcome.phase);
        let unwatched_start = plan::leaves_unwatched(after);
        if unwatched_start {
            unwatched(
                after,
                "the start was not answered, and nobody waits for it any more",
            );
        }
        if unwatched_start || outcome.phase == Phase::Unknown {
            metrics::counter!("rvc_durable_starts_unknown_total").increment(1);
        }
    }
    if let Some(last) = &after.trouble.last
        && before.trouble != after.trouble
        && !after.trouble.is_over()
    {
        tracing::debug!(
            action_id = %after.action,
            errors = after.trouble.errors,
            gone = after.trouble.gone,
            malformed = after.trouble.malformed,
            reason = last,
            "a remote call did not help"
        );
    }
}

/// Remote work that goes on, and that nobody here will see the end of.
pub(crate) fn unwatched(row: &Linkage, reason: &'static str) {
    event!(
        error,
        "remote work may go on unwatched",
        row,
        reason = reason
    );
}

/// A server did not take what the host answered.
pub(crate) fn refused(row: &Linkage, keys: &[String], reason: &str) {
    event!(
        warn,
        "the server refused an answer to its request for input",
        row,
        keys = shown(row, &keys.join(", ")),
        reason = shown(row, reason)
    );
}

/// Counts an outcome.
pub(crate) fn ended(phase: Phase) {
    metrics::counter!("rvc_durable_outcomes_total", "phase" => phase.as_str()).increment(1);
}

/// Sets the gauges.
pub(crate) fn gauges(census: &Census) {
    for phase in Phase::ALL {
        let rows = census
            .phases
            .iter()
            .find_map(|(of, rows)| (*of == phase).then_some(*rows))
            .unwrap_or(0);
        metrics::gauge!("rvc_durable_rows", "phase" => phase.as_str()).set(count(rows));
    }
    metrics::gauge!("rvc_durable_open_rows").set(count(census.open));
    metrics::gauge!("rvc_durable_due_lag_seconds").set(census.due_lag.as_secs_f64());
    metrics::gauge!("rvc_durable_cancels_unacknowledged").set(count(census.cancels_unacknowledged));
}

/// Counts a step and how long its remote call took.
pub(crate) fn step(name: &'static str, took: Duration) {
    metrics::counter!("rvc_durable_steps_total", "step" => name).increment(1);
    metrics::histogram!("rvc_durable_step_seconds", "step" => name).record(took.as_secs_f64());
}

// A gauge is a float; counts of rows are far below where that matters.
#[allow(clippy::cast_precision_loss)]
fn count(rows: u64) -> f64 {
    rows as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> Linkage {
        let submission = crate::Submission::new("a".parse().unwrap(), "r".parse().unwrap(), "t");
        let now = crate::Moment::from_unix_ms(0);
        let mut row = Linkage::intent(&submission, crate::HostKind::Ledger, now);
        row.remote = Some(crate::RemoteTask {
            kind: crate::RemoteKind::Mcp,
            id: id.into(),
            created_at: String::new(),
            status: "working".into(),
            ended: false,
            progress: None,
            ttl: None,
            poll_interval: None,
        });
        row
    }

    #[test]
    fn a_servers_text_is_logged_with_the_hash_of_the_id_that_it_names() {
        let id = "secret-task-id";
        let hash = short_hash(id);
        for (text, expected) in [
            (
                format!("Task {id} not found"),
                format!("Task {hash} not found"),
            ),
            (format!("{id}:{id}"), format!("{hash}:{hash}")),
            (format!("cut in {}…", &id[..9]), format!("cut in {hash}…")),
            ("no s…".into(), "no s…".into()),
            ("nothing of it".into(), "nothing of it".into()),
        ] {
            assert_eq!(shown(&row(id), &text), expected);
        }
        let quoted = "a \"quoted\" id";
        let json = serde_json::json!({"taskId": quoted}).to_string();
        assert!(!shown(&row(quoted), &json).contains("quoted"));
    }

    #[test]
    fn a_logged_remote_id_is_not_the_id() {
        let hash = short_hash("secret-task-id");

        assert_eq!(hash.len(), 12);
        assert!(!hash.contains("secret"));
    }
}
