use std::fmt;

use futures_util::future::BoxFuture;

use super::DialError;
use crate::registration::Registration;

/// A bearer token. It is given at call time, and kept only as long as the connection it opened.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes a token.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    pub(super) fn secret(self) -> String {
        self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Where tokens come from: the host, whenever a connection is opened, and before each start.
///
/// A start goes out over a connection that was opened with the token that this gives just
/// before, so that a token which is replaced in time fails none. One that the server refuses
/// all the same (401) fails the action under
/// [`AtMostOnce`](crate::StartPolicy::AtMostOnce): give none that is about to expire. Other
/// calls are made over the connection there is, and after a 401 over a new one.
///
/// A source that gives another token each time costs a connection for each start.
///
/// # Cancel safety
///
/// Dropping the future gives the attempt up.
pub trait TokenSource: Send + Sync + 'static {
    /// The token for a server; `None` where it needs none.
    ///
    /// The registration's owner is the owner of the action that calls, so that each may have a
    /// token of their own. No call of one owner goes out with the token of another.
    fn token<'a>(
        &'a self,
        registration: &'a Registration,
    ) -> BoxFuture<'a, Result<Option<Token>, DialError>>;
}

/// No server needs a token.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTokens;

impl TokenSource for NoTokens {
    fn token<'a>(&'a self, _: &'a Registration) -> BoxFuture<'a, Result<Option<Token>, DialError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
