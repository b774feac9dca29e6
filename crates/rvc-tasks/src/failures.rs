//! The failures that the manager itself states, and the short form of long ones.

use std::time::Duration;

use rvc_wire::TaskFailure;

/// The code of what went wrong inside a server.
pub(crate) const INTERNAL: &str = "INTERNAL";

/// The code of a task that ran past its deadline.
pub(crate) const TIMEOUT: &str = "TIMEOUT";

/// The most bytes of a message in a shortened failure.
const MESSAGE_BYTES: usize = 4_096;
/// The most bytes of an error code in a shortened failure.
const CODE_BYTES: usize = 256;

/// An error that nobody planned for: there is nothing a planner could do about it.
pub(crate) fn internal(message: String) -> TaskFailure {
    TaskFailure {
        error_code: INTERNAL.into(),
        message,
        recoverable: false,
        suggestions: Vec::new(),
    }
}

/// Written for the planner: it must know when the robot may still be moving.
pub(crate) fn timed_out(after: Duration, stopped: bool) -> TaskFailure {
    let seconds = after.as_secs_f64();
    let message = if stopped {
        format!("The task ran past its deadline of {seconds} s and was stopped.")
    } else {
        format!(
            "The task ran past its deadline of {seconds} s and did not stop when told to: \
             the robot may still be moving."
        )
    };
    TaskFailure {
        error_code: TIMEOUT.into(),
        message,
        recoverable: true,
        suggestions: Vec::new(),
    }
}

/// What still fits in an event, or in memory, when the whole failure does not.
pub(crate) fn shortened(failure: &TaskFailure) -> TaskFailure {
    TaskFailure {
        error_code: cut(&failure.error_code, CODE_BYTES),
        message: cut(&failure.message, MESSAGE_BYTES),
        recoverable: failure.recoverable,
        suggestions: Vec::new(),
    }
}

/// The first `most` bytes or a little less, with a mark if something is missing.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most)
        .rev()
        .find(|&index| text.is_char_boundary(index))
        .expect("0 is a boundary");
    format!("{} [cut, {} bytes in all]", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_failure_is_cut_between_characters() {
        let long = TaskFailure {
            error_code: "É".repeat(1_000),
            message: "ß".repeat(1_000_000),
            recoverable: true,
            suggestions: vec!["x".repeat(1_000_000)],
        };
        let short = shortened(&long);
        assert!(short.message.starts_with(&"ß".repeat(2_048)));
        assert!(short.message.ends_with("ß [cut, 2000000 bytes in all]"));
        assert!(short.error_code.len() < 300);
        assert!(short.recoverable);
        assert!(serde_json::to_vec(&short).unwrap().len() < 6_000);
    }

    #[test]
    fn a_time_out_says_whether_the_robot_may_still_be_moving() {
        let after = Duration::from_millis(1_500);
        assert!(
            timed_out(after, true)
                .message
                .contains("1.5 s and was stopped")
        );
        assert!(
            timed_out(after, false)
                .message
                .contains("may still be moving")
        );
    }
}
