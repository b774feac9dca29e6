use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{BoxTransport, Token};
use crate::registration::Registration;

/// Why a server cannot be spoken to at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DialError {
    /// What failed.
    pub reason: String,
    /// When the server wants to be tried again.
    pub retry_after: Option<Duration>,
}

impl DialError {
    /// A failure after which the server may be tried again whenever it suits.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            retry_after: None,
        }
    }
}

/// Opens transports to registered servers.
///
/// # Cancel safety
///
/// Dropping the future gives the attempt up.
pub trait Dialer: Send + Sync + 'static {
    /// The token that a connection is opened with now. A start is sent over no connection that
    /// was opened with another one.
    fn token<'a>(
        &'a self,
        _registration: &'a Registration,
    ) -> BoxFuture<'a, Result<Option<Token>, DialError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Opens a transport to the server of `registration`, with that token.
    fn dial<'a>(
        &'a self,
        registration: &'a Registration,
        token: Option<Token>,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>>;
}
