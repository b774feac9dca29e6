use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use http::StatusCode;

/// Why an attempt to deliver an event failed. Each is retried (contract section 3.1).
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeliveryError {
    /// No connection was made, TLS included.
    #[error("could not connect to the endpoint")]
    Connect(#[source] io::Error),

    /// The attempt's time was over before a connection was made.
    #[error("no connection to the endpoint within {0:?}")]
    ConnectTimeout(Duration),

    /// The attempt's time was over before an answer's status and headers had come.
    #[error("no answer from the endpoint within {0:?}")]
    AnswerTimeout(Duration),

    /// The connection ended before an answer's status and headers had come, or they were none.
    #[error("the connection gave no answer")]
    Broken(#[source] hyper::Error),

    /// The endpoint answered outside 2xx.
    #[error("the endpoint answered {status}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// How long the endpoint asks to be left alone.
        retry_after: Option<Duration>,
        /// The beginning of the answer's body.
        answer: String,
    },

    /// The connector or the clock panicked; the panic's message went to the panic hook.
    #[error("the connector or the clock panicked")]
    Panicked,
}

impl DeliveryError {
    /// Whether the endpoint itself could not be reached, so that every task's event would fail.
    pub(crate) fn is_unreached(&self) -> bool {
        // All tasks share the connector and the clock.
        matches!(
            self,
            Self::Connect(_) | Self::ConnectTimeout(_) | Self::Panicked
        )
    }

    /// How long the endpoint asks to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The beginning of the answer's body, if there was one.
    pub(crate) fn answer(&self) -> Option<&str> {
        match self {
            Self::Refused { answer, .. } if !answer.is_empty() => Some(answer),
            _ => None,
        }
    }

    /// The message with those of its causes, for a log line.
    pub(crate) fn chain(&self) -> Chain<'_> {
        Chain(self)
    }
}

/// Displays an error with its causes.
pub(crate) struct Chain<'a>(&'a DeliveryError);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_names_the_causes() {
        let error = DeliveryError::Connect(io::Error::other("no route to host"));
        assert_eq!(
            error.chain().to_string(),
            "could not connect to the endpoint: no route to host"
        );
    }

    #[test]
    fn what_fails_for_every_task_alike_means_that_the_endpoint_is_unreached() {
        let refused = DeliveryError::Refused {
            status: StatusCode::SERVICE_UNAVAILABLE,
            retry_after: None,
            answer: String::new(),
        };
        for (error, unreached) in [
            (DeliveryError::Connect(io::Error::other("x")), true),
            (DeliveryError::ConnectTimeout(Duration::ZERO), true),
            (DeliveryError::AnswerTimeout(Duration::ZERO), false),
            (refused, false),
            (DeliveryError::Panicked, true),
        ] {
            assert_eq!(error.is_unreached(), unreached, "{error}");
        }
    }
}
