//! The host of runs and actions, as a port for one that is not the ledger.

use futures_util::future::BoxFuture;

use crate::name::{ActionId, OwnerId, RegistrationId, RunId};
use crate::outcome::Outcome;
use crate::phase::ActionState;
use crate::plan::RunState;
use crate::registration::Registration;

/// Why a foreign host did not answer. It is asked again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host did not answer: {reason}")]
pub struct HostError {
    /// What failed.
    pub reason: String,
}

/// One outcome on its way to a foreign host. The action is its key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Delivery {
    /// The action.
    pub action: ActionId,
    /// Its run.
    pub run: RunId,
    /// The run's owner.
    pub owner: OwnerId,
    /// The language model's id of the call.
    pub tool_call_id: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
}

/// A host that keeps its runs and actions elsewhere, perhaps with updates of which the last
/// one wins.
///
/// For each outcome it is asked, in this order: was it delivered? Is the run still wanted? Then
/// it gets the result, and then the action's state. Each call may be repeated after a crash.
///
/// A host without compare-and-set gets less than the ledger: a cancel that it commits between
/// the answer to [`run_state`](Self::run_state) and [`deliver`](Self::deliver) is overtaken by
/// the result. The window is one call long.
///
/// # Cancel safety
///
/// Dropping a future of these says nothing about what the host did.
pub trait ForeignHost: Send + Sync + 'static {
    /// The run's state, read now. A run that is gone counts as cancelled.
    fn run_state(&self, run: RunId) -> BoxFuture<'_, Result<RunState, HostError>>;

    /// Whether the outcome of an action was delivered already.
    fn was_delivered(&self, action: ActionId) -> BoxFuture<'_, Result<bool, HostError>>;

    /// Takes the outcome of an action. A second delivery of the same action changes nothing.
    fn deliver(&self, delivery: Delivery) -> BoxFuture<'_, Result<(), HostError>>;

    /// Ends an action, unless it has ended.
    fn finish(&self, action: ActionId, state: ActionState) -> BoxFuture<'_, Result<(), HostError>>;

    /// The registration, if `owner` may use it now; `None` where it may not.
    ///
    /// Where several may use it, each gets it with themselves as its
    /// [`owner`](Registration::owner): that is whom a [`TokenSource`](crate::remote::TokenSource)
    /// is asked for. One that belongs to somebody else counts as one that may not be used.
    fn authorise(
        &self,
        registration: RegistrationId,
        owner: OwnerId,
    ) -> BoxFuture<'_, Result<Option<Registration>, HostError>>;
}
