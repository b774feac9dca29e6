use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use rvc_tasks::{TaskError, TaskFailure};

/// What the code of such a failure begins with; the JSON-RPC error's code follows.
const PREFIX: &str = "JSON_RPC:";

/// Fails a task with an error of the protocol instead of one of the work: for a client of the
/// official extension it is `failed`, where every other failure is a `completed` task whose
/// result has `isError: true`.
///
/// On the contract it is a failure like any other, with the code in it (`JSON_RPC:-32603`), and
/// not recoverable. The error's `data` is not passed on.
///
/// # Examples
///
/// ```
/// use rmcp::ErrorData;
/// use rvc_mcp::protocol_error;
///
/// let error = protocol_error(&ErrorData::internal_error("the map server is gone", None));
/// assert_eq!(error.failure().error_code, "JSON_RPC:-32603");
/// ```
#[must_use]
pub fn protocol_error(error: &ErrorData) -> TaskError {
    let code = format!("{PREFIX}{}", error.code.0);
    TaskError::new(code, error.message.clone()).recoverable(false)
}

/// The error of the protocol that a failure states, if it does.
pub(crate) fn as_protocol_error(failure: &TaskFailure) -> Option<ErrorData> {
    let code = failure.error_code.strip_prefix(PREFIX)?.parse().ok()?;
    Some(ErrorData::new(
        ErrorCode(code),
        failure.message.clone(),
        None,
    ))
}
