//! How often a client should poll.

use std::time::Duration;

use rvc_tasks::{TaskInfo, TaskState};
use serde_json::Value;

/// Shorter than this, polling costs more than it tells.
const LEAST: Duration = Duration::from_millis(250);
/// While a body stops, its end is near.
const STOPPING: Duration = Duration::from_millis(500);

/// The `pollIntervalMs` of a task as it stands, `age` after its start: what its tool says, or
/// the time that is left if that is less.
pub(super) fn poll_interval(setting: Duration, info: &TaskInfo, age: Duration) -> Duration {
    let wait = match info.state {
        TaskState::Running if info.cancel_requested => setting.min(STOPPING),
        TaskState::Running => match time_left(info, age) {
            Some(left) => setting.min(left),
            None => setting,
        },
        TaskState::Succeeded | TaskState::Failed | TaskState::Cancelled => setting,
    };
    wait.max(LEAST.min(setting)).max(Duration::from_millis(1))
}

/// What the latest report says, less the time since; else what was expected at the start.
fn time_left(info: &TaskInfo, age: Duration) -> Option<Duration> {
    let progress = info.progress.as_ref();
    let left = match progress
        .and_then(|progress| progress.get("eta_s"))
        .and_then(Value::as_f64)
    {
        Some(eta) => eta - since_update(info, age).as_secs_f64(),
        None => info.est_duration_s? - age.as_secs_f64(),
    };
    Some(Duration::try_from_secs_f64(left.max(0.0)).unwrap_or(Duration::MAX))
}

/// How long ago the task last changed. Both times are the wall clock's, which may have jumped
/// between them: where that shows, it is taken to have changed just now.
fn since_update(info: &TaskInfo, age: Duration) -> Duration {
    let at = info.updated_at.unix_ms() - info.created_at.unix_ms();
    let at = u64::try_from(at).map_or(age, Duration::from_millis);
    age.saturating_sub(at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn info(extra: &Value) -> TaskInfo {
        let mut info = json!({
            "task_id": "navi-000001", "server": "navigation", "tool": "navigate_to",
            "state": "running",
            "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:10.000Z",
        });
        let all = info.as_object_mut().unwrap();
        all.extend(extra.as_object().unwrap().clone());
        serde_json::from_value(info).unwrap()
    }

    #[test]
    fn the_interval_is_the_tools_or_what_is_left_if_that_is_less() {
        let jumped = "2126-01-01T00:00:00.000Z";
        for (extra, age_ms, interval_ms) in [
            (json!({}), 10_000, 5_000),
            (json!({"progress": {"eta_s": 60}}), 10_000, 5_000),
            (json!({"progress": {"eta_s": 2}}), 10_000, 2_000),
            // Reported three seconds ago.
            (json!({"progress": {"eta_s": 6}}), 13_000, 3_000),
            (json!({"progress": {"eta_s": 0}}), 10_000, 250),
            (json!({"progress": {"eta_s": -9}}), 10_000, 250),
            (json!({"progress": {"eta_s": 1e300}}), 10_000, 5_000),
            (json!({"progress": {"eta_s": "soon"}}), 10_000, 5_000),
            (
                json!({"progress": {"eta_s": 2}, "updated_at": jumped}),
                10_000,
                2_000,
            ),
            // Set back to before it began.
            (
                json!({"progress": {"eta_s": 2}, "updated_at": "1970-01-01T00:00:00.000Z"}),
                10_000,
                2_000,
            ),
            (json!({"est_duration_s": 12}), 10_000, 2_000),
            (json!({"est_duration_s": 12}), 90_000, 250),
            // What a report says is newer than what was expected.
            (
                json!({"est_duration_s": 12, "progress": {"eta_s": 60}}),
                10_000,
                5_000,
            ),
            (json!({"cancel_requested": true}), 10_000, 500),
            (
                json!({"state": "succeeded", "progress": {"eta_s": 1}}),
                10_000,
                5_000,
            ),
        ] {
            let setting = Duration::from_secs(5);
            let age = Duration::from_millis(age_ms);
            let interval = poll_interval(setting, &info(&extra), age);
            assert_eq!(interval, Duration::from_millis(interval_ms), "{extra}");
        }
    }

    #[test]
    fn a_tool_that_wants_to_be_polled_faster_is() {
        let setting = Duration::from_millis(50);
        let near = info(&json!({"progress": {"eta_s": 0}}));
        assert_eq!(poll_interval(setting, &near, Duration::ZERO), setting);
    }

    #[test]
    fn an_interval_is_never_zero() {
        let interval = poll_interval(Duration::ZERO, &info(&json!({})), Duration::ZERO);
        assert_eq!(interval.as_millis(), 1);
    }
}
