//! One log line for each tool call.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use rmcp::ErrorData;
use rmcp::model::CallToolResponse;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::call_context::CallContext;

/// How much of what a caller sends stands in the log.
const MOST_CHARS: usize = 256;

tokio::task_local! {
    /// Set while a call is logged: the wrapper's calls reach the tools of the kit as well.
    static LOGGED: ();
}

/// Makes a call in a span that says whose it is, and logs how it ended and how long it took.
/// Contract decision 29.
///
/// A call that panics is answered with an internal error: rmcp would leave its caller without
/// an answer. A call within another is part of it, and gets no line of its own.
pub(crate) async fn logged(
    tool: &str,
    ids: &CallContext,
    call: impl Future<Output = Result<CallToolResponse, ErrorData>>,
) -> Result<CallToolResponse, ErrorData> {
    if LOGGED.try_with(|()| ()).is_ok() {
        return call.await;
    }
    let call = async {
        let mut line = Line {
            since: Instant::now(),
            outcome: Outcome::BrokenOff,
        };
        // Whatever the panic left half done belongs to the call, and is dropped with it.
        let ended = AssertUnwindSafe(call).catch_unwind().await;
        let (answer, outcome) = match ended {
            Ok(answer) => {
                let outcome = Outcome::of(&answer);
                (answer, outcome)
            }
            Err(panic) => {
                let error = ErrorData::internal_error("the call panicked", None);
                (Err(error), Outcome::Panicked(panic_text(&*panic)))
            }
        };
        line.outcome = outcome;
        answer
    };
    LOGGED.scope((), call).instrument(span(tool, ids)).await
}

fn span(tool: &str, ids: &CallContext) -> Span {
    // There whatever the level that is logged: warnings within need it too.
    let span = tracing::error_span!(
        "tools/call",
        tool = %cut(tool),
        traceparent = Empty,
        request_id = Empty,
        turn_id = Empty,
        mission_id = Empty,
    );
    for (field, value) in [
        ("traceparent", &ids.traceparent),
        ("request_id", &ids.request_id),
        ("turn_id", &ids.turn_id),
        ("mission_id", &ids.mission_id),
    ] {
        if let Some(value) = value {
            span.record(field, cut(value));
        }
    }
    span
}

/// How a call ended.
enum Outcome {
    Ok,
    /// The tool says that it failed.
    IsError,
    /// The caller was given a handle of the extension.
    TaskHandle,
    /// The caller is to send more.
    InputRequired,
    ProtocolError {
        code: i32,
        error: String,
    },
    Panicked(String),
    /// It was dropped before it ended.
    BrokenOff,
}

impl Outcome {
    fn of(answer: &Result<CallToolResponse, ErrorData>) -> Self {
        match answer {
            Ok(CallToolResponse::Complete(answer)) if answer.is_error == Some(true) => {
                Self::IsError
            }
            Ok(CallToolResponse::Task(_)) => Self::TaskHandle,
            Ok(CallToolResponse::InputRequired(_)) => Self::InputRequired,
            Ok(_) => Self::Ok,
            Err(error) => Self::ProtocolError {
                code: error.code.0,
                error: cut(&error.message),
            },
        }
    }

    fn as_str(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::IsError => "is_error",
            Self::TaskHandle => "task_handle",
            Self::InputRequired => "input_required",
            Self::ProtocolError { .. } => "protocol_error",
            Self::Panicked(_) => "panicked",
            Self::BrokenOff => "broken_off",
        }
    }
}

/// The line of one call; it is written when it is dropped.
struct Line {
    since: Instant,
    outcome: Outcome,
}

impl Drop for Line {
    fn drop(&mut self) {
        let duration_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let outcome = self.outcome.as_str();
        match &self.outcome {
            Outcome::Panicked(panic) => {
                tracing::error!(outcome, duration_ms, %panic, "tool called");
            }
            Outcome::ProtocolError { code, error } => {
                tracing::warn!(outcome, duration_ms, code, %error, "tool called");
            }
            Outcome::BrokenOff => tracing::warn!(outcome, duration_ms, "tool called"),
            _ => tracing::info!(outcome, duration_ms, "tool called"),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    cut(text.unwrap_or("not a text"))
}

fn cut(text: &str) -> String {
    text.chars().take(MOST_CHARS).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::{pending, ready};
    use std::time::Duration;

    use futures_util::poll;
    use rmcp::model::CallToolResult;
    use rvc_test::Logs;
    use tokio::time::sleep;
    use tracing::Level;

    use super::*;

    fn ids() -> CallContext {
        CallContext {
            request_id: Some("r-1".to_owned()),
            turn_id: Some("t".repeat(100_000)),
            ..CallContext::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_within_a_call_is_logged_once() {
        let logs = Logs::capture();
        let (outer, inner) = (ids(), ids());
        let call = logged("inner", &inner, async {
            sleep(Duration::from_secs(2)).await;
            Ok(CallToolResult::success(vec![]).into())
        });
        logged("outer", &outer, call).await.unwrap();

        let lines = logs.lines();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        for (field, value) in [
            ("tool", "outer"),
            ("outcome", "ok"),
            ("duration_ms", "2000"),
            ("request_id", "r-1"),
        ] {
            assert_eq!(lines[0].field(field), Some(value), "{lines:#?}");
        }
        assert_eq!(lines[0].field("traceparent"), None);
        assert_eq!(lines[0].field("turn_id").unwrap().len(), MOST_CHARS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_dropped_leaves_a_line_too() {
        let logs = Logs::capture();
        let ids = ids();
        let mut call = Box::pin(logged("drive", &ids, pending()));
        assert!(poll!(&mut call).is_pending());
        sleep(Duration::from_secs(3)).await;
        drop(call);

        let lines = logs.at(Level::WARN);
        assert_eq!(lines[0].field("outcome"), Some("broken_off"));
        assert_eq!(lines[0].field("duration_ms"), Some("3000"));
        assert_eq!(lines[0].field("request_id"), Some("r-1"));
    }

    #[tokio::test]
    async fn a_panic_is_answered_and_logged_as_an_error() {
        let logs = Logs::capture();
        let ids = ids();
        let answer = logged("drive", &ids, async { panic!("no {}", "map") });

        let error = answer.await.unwrap_err();
        assert_eq!(
            (error.code.0, &*error.message),
            (-32603, "the call panicked")
        );
        let lines = logs.at(Level::ERROR);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert_eq!(lines[0].field("panic"), Some("no map"));
        assert_eq!(lines[0].field("tool"), Some("drive"));
    }

    #[tokio::test]
    async fn an_error_of_the_protocol_is_logged_with_its_code() {
        let logs = Logs::capture();
        let error = ErrorData::invalid_params("x".repeat(100_000), None);
        let answer = logged("drive", &ids(), ready(Err(error))).await;

        assert!(answer.is_err());
        let lines = logs.at(Level::WARN);
        assert_eq!(lines[0].field("code"), Some("-32602"));
        assert_eq!(lines[0].field("error").unwrap().len(), MOST_CHARS);
    }
}
