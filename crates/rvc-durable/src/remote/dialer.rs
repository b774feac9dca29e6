use futures_util::future::BoxFuture;

use super::BoxTransport;
use crate::registration::Registration;

/// Why a server cannot be spoken to at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DialError {
    /// What failed.
    pub reason: String,
}

/// Opens transports to registered servers.
///
/// # Cancel safety
///
/// Dropping the future gives the attempt up.
pub trait Dialer: Send + Sync + 'static {
    /// Opens a transport to the server of `registration`.
    fn dial<'a>(
        &'a self,
        registration: &'a Registration,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>>;
}
