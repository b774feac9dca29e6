use std::error::Error;
use std::fmt;

use rvc_wire::TaskFailure;

use crate::failures::internal;

/// Fails a task with what a planner needs: a code, a text, and hints for going on.
///
/// Any `std::error::Error` converts to one with the code `INTERNAL`, its text as message and
/// `recoverable: false`; its chain of sources is logged. So `?` works in a body as usual. For
/// that conversion to exist it is not itself an `Error`.
///
/// # Examples
///
/// ```
/// use rvc_tasks::TaskError;
///
/// let error = TaskError::new("DOOR_CLOSED", "The door to the lab is closed.")
///     .suggestion("ask_reception")
///     .suggestion("retry_after_s:300");
/// assert!(error.failure().recoverable);
/// ```
pub struct TaskError {
    failure: TaskFailure,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl TaskError {
    /// A failure that the planner may recover from.
    ///
    /// The message is one or two sentences, written for a language model.
    #[must_use]
    pub fn new(error_code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            failure: TaskFailure {
                error_code: error_code.into(),
                message: message.into(),
                recoverable: true,
                suggestions: Vec::new(),
            },
            source: None,
        }
    }

    /// Says whether there is a point in planning around it.
    #[must_use]
    pub fn recoverable(mut self, recoverable: bool) -> Self {
        self.failure.recoverable = recoverable;
        self
    }

    /// Adds a hint, such as `retry_after_s:300`.
    #[must_use]
    pub fn suggestion(mut self, suggestion: impl Into<String>) -> Self {
        self.failure.suggestions.push(suggestion.into());
        self
    }

    /// What the planner will read.
    #[must_use]
    pub const fn failure(&self) -> &TaskFailure {
        &self.failure
    }

    /// The error behind it, where it was converted from one.
    #[must_use]
    pub fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }

    pub(crate) fn into_failure(self) -> TaskFailure {
        self.failure
    }

    /// The error behind it and everything behind that, for the log.
    pub(crate) fn source_chain(&self) -> Option<String> {
        let mut chain = self.source.as_ref()?.to_string();
        let mut next = self.source()?.source();
        while let Some(error) = next {
            chain.push_str(": ");
            chain.push_str(&error.to_string());
            next = error.source();
        }
        Some(chain)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for TaskError {
    fn from(error: E) -> Self {
        Self {
            failure: internal(error.to_string()),
            source: Some(Box::new(error)),
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.failure.error_code, self.failure.message)
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskError")
            .field("failure", &self.failure)
            .field("source", &self.source)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("motor stalled")]
    struct Stalled(#[source] std::num::ParseIntError);

    #[test]
    fn any_other_error_is_internal_and_keeps_its_chain() {
        let cause = "x".parse::<u8>().unwrap_err();
        let error = TaskError::from(Stalled(cause));
        assert_eq!(
            *error.failure(),
            TaskFailure {
                error_code: "INTERNAL".into(),
                message: "motor stalled".into(),
                recoverable: false,
                suggestions: vec![],
            }
        );
        assert_eq!(
            error.source_chain().unwrap(),
            "motor stalled: invalid digit found in string"
        );
    }
}
