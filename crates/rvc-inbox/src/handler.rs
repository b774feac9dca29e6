use std::future::Future;

use crate::{Accepted, Rejection};

/// What a receiver does with the events that a service takes.
///
/// An async closure that takes [`Accepted`] is one:
///
/// ```
/// use rvc_inbox::{Accepted, Handler, NotNow};
///
/// fn handler() -> impl Handler {
///     |accepted: Accepted| async move {
///         println!("{}", accepted.event.event_type);
///         Ok::<(), NotNow>(())
///     }
/// }
/// # let _ = handler();
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Takes an event that was not taken before. The sender gets its acknowledgement after `Ok`.
    ///
    /// It is never called twice at once for one event, and not again once it said `Ok`, as long as
    /// the inbox remembers. It runs to its end also when the sender hangs up. A sender gives an
    /// attempt some 10 s and then tries again, so what takes long belongs behind a queue.
    ///
    /// # Errors
    ///
    /// [`NotNow`] if it cannot take the event: nothing is remembered, and the sender tries again.
    fn handle(&self, accepted: Accepted) -> impl Future<Output = Result<(), NotNow>> + Send;

    /// Hears of an event that was taken before. It is acknowledged again.
    fn duplicate(&self, _accepted: &Accepted) {}

    /// Hears of a request that is refused.
    fn rejected(&self, _rejection: &Rejection) {}
}

impl<F, Handled> Handler for F
where
    F: Fn(Accepted) -> Handled + Send + Sync + 'static,
    Handled: Future<Output = Result<(), NotNow>> + Send,
{
    fn handle(&self, accepted: Accepted) -> impl Future<Output = Result<(), NotNow>> + Send {
        self(accepted)
    }
}

/// A handler cannot take an event now. The sender is told 503, and tries again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event cannot be taken now: {reason}")]
pub struct NotNow {
    reason: String,
}

impl NotNow {
    /// Says why, for the log and the sender.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}
