//! What a client of the extension reads about a task, in a sentence.

use rvc_tasks::{Map, TaskInfo, TaskState};
use serde_json::Value;

/// The most characters of progress that is not understood.
const MOST: usize = 500;

/// The `statusMessage` of a task as it stands; `stopped` is whether its body has stopped.
pub(super) fn status_message(info: &TaskInfo, stopped: bool) -> Option<String> {
    match info.state {
        TaskState::Running if info.cancel_requested => {
            Some("A cancel was accepted; waiting for the work to stop.".to_owned())
        }
        TaskState::Running => info.progress.as_ref().map(progress_message),
        TaskState::Cancelled if !stopped => Some(
            "Cancelled, but the work did not stop in time: the robot may still be moving."
                .to_owned(),
        ),
        TaskState::Succeeded | TaskState::Failed | TaskState::Cancelled => None,
    }
}

/// `60 % done, 22 s left, 14.1 m to go`; whatever has none of these is written as it is.
fn progress_message(progress: &Map) -> String {
    let number = |key: &str| {
        let value = progress.get(key).and_then(Value::as_f64)?;
        value.is_finite().then(|| rounded(value))
    };
    let parts = [
        number("percent").map(|percent| format!("{percent} % done")),
        number("eta_s").map(|eta| format!("{eta} s left")),
        number("distance_m").map(|distance| format!("{distance} m to go")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        compact(progress)
    } else {
        parts.join(", ")
    }
}

/// To one decimal below ten, where it matters, and to none above.
fn rounded(value: f64) -> String {
    if value.abs() < 10.0 {
        let tenths = (value * 10.0).round() / 10.0;
        // Adding zero turns a negative zero into a plain one.
        format!("{}", tenths + 0.0)
    } else {
        format!("{value:.0}")
    }
}

fn compact(progress: &Map) -> String {
    let text = serde_json::to_string(progress).expect("its keys are strings");
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(progress: &Value) -> String {
        progress_message(progress.as_object().unwrap())
    }

    #[test]
    fn progress_reads_as_a_sentence_where_its_keys_are_known() {
        for (progress, says) in [
            (
                json!({"eta_s": 22.4, "distance_m": 14.1, "percent": 60}),
                "60 % done, 22 s left, 14 m to go",
            ),
            (json!({"eta_s": 9.44}), "9.4 s left"),
            (json!({"eta_s": 0}), "0 s left"),
            (json!({"eta_s": -0.0}), "0 s left"),
            (json!({"eta_s": -0.04}), "0 s left"),
            (json!({"percent": 99.96, "phase": "turning"}), "100 % done"),
            (json!({"distance_m": 0.25}), "0.3 m to go"),
            (json!({"eta_s": 1e300}), &format!("{:.0} s left", 1e300)),
        ] {
            assert_eq!(message(&progress), says, "{progress}");
        }
    }

    #[test]
    fn other_progress_is_written_as_it_is() {
        for (progress, says) in [
            (json!({}), "{}"),
            (json!({"phase": "turning"}), r#"{"phase":"turning"}"#),
            (json!({"eta_s": "soon"}), r#"{"eta_s":"soon"}"#),
            (json!({"eta_s": null}), r#"{"eta_s":null}"#),
        ] {
            assert_eq!(message(&progress), says);
        }
    }

    #[test]
    fn long_progress_is_cut_between_characters() {
        let cut = message(&json!({"seen": "ß".repeat(1_000)}));
        assert_eq!(cut.chars().count(), MOST + 1);
        assert!(cut.ends_with("ß…"));
    }
}
