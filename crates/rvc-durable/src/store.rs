//! Where linkages are kept, as a port.
//!
//! ```text
//! claim ─► rows with a lease and a fence ─► one remote call each ─► write (compares the fence)
//! ```
//!
//! An adapter promises, by constraints of its engine and not by memory:
//!
//! 1. One row per action. One action per (registration, kind, remote id, remote creation).
//! 2. A write compares owner, fence and phase, and changes nothing when one of them differs.
//! 3. Fences only rise. An outcome is inserted once. A remote id is written once.
//! 4. What returned `Ok` is on stable storage, but for what an adapter excepts by name.
//! 5. In the ledger an outcome and the action's state commit together, and a cancel that is
//!    already committed wins.

mod claim;
mod error;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod record;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rvc_wire::Map;
use tokio::sync::broadcast;

pub use self::claim::{
    Claim, ClaimRequest, Claimed, Claims, LeaseOwner, Renewed, Surroundings, Write, Written,
};
pub use self::error::StoreError;
#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{SqliteOptions, SqliteStore};

use crate::linkage::{HostKind, Linkage, RemoteKind};
use crate::moment::Moment;
use crate::name::{ActionId, OwnerId, RegistrationId, RunId};
use crate::phase::Phase;
use crate::registration::Registration;
use crate::submission::Submission;

/// What became of a submission.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Submitted {
    /// The intent is durable.
    New,
    /// The same request was submitted before; this is its row.
    Known(Box<Linkage>),
    /// The action exists with other arguments.
    Different,
    /// The run is cancelled.
    RunCancelled,
    /// The run belongs to someone else.
    RunOwned,
}

/// What became of a cancel.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// It is committed: the action is cancelled, for ever.
    Cancelled,
    /// The action had ended before; this is its row.
    Ended(Box<Linkage>),
    /// There is no such action.
    Unknown,
}

/// What became of an answer to a request for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerOutcome {
    /// It is durable, and goes out with the next step.
    Stored,
    /// The remote task does not ask for this key (any more), or it was answered before.
    NotAsked,
    /// There is no such action.
    Unknown,
}

/// Which rows to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Of this run only.
    pub run: Option<RunId>,
    /// In one of these phases only; empty means all.
    pub phases: Vec<Phase>,
    /// At most this many, the newest first; zero means all.
    pub limit: u32,
}

impl Filter {
    /// Every row.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Keeps the rows of one run.
    #[must_use]
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// Keeps rows in `phase`, besides those asked for before.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phases.push(phase);
        self
    }

    /// Keeps the newest `limit` rows.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }
}

/// The state of a whole store, for gauges and for `--until-idle`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Census {
    /// Rows by phase; phases without a row are left out.
    pub phases: Vec<(Phase, u64)>,
    /// Rows with something left to do, a clean-up included.
    pub open: u64,
    /// How long the longest overdue row that nobody has in hand has been due.
    pub due_lag: std::time::Duration,
    /// Cancelled or failed rows whose server has not acknowledged a cancel.
    pub cancels_unacknowledged: u64,
}

/// What other processes on the same store did. News, not truth: it may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// Something may be due.
    Due,
    /// An action has its outcome.
    Changed(ActionId),
    /// News may have been missed: anything may have happened.
    Missed,
}

/// Where linkages are kept. See the [module](self) for what an adapter promises.
///
/// # Cancel safety
///
/// Dropping a future does not undo its operation: it may still be carried out.
pub trait Store: Send + Sync + 'static {
    /// The store's clock. For a server it is the server's.
    fn now(&self) -> BoxFuture<'_, Result<Moment, StoreError>>;

    /// Makes the intent of a submission durable, with its run and action in the ledger.
    fn submit(
        &self,
        submission: Submission,
        host: HostKind,
    ) -> BoxFuture<'_, Result<Submitted, StoreError>>;

    /// Leases due rows.
    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Claims, StoreError>>;

    /// Writes a claimed row back.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Written, StoreError>>;

    /// Prolongs a lease.
    fn renew(
        &self,
        claim: Claim,
        lease: std::time::Duration,
    ) -> BoxFuture<'_, Result<Renewed, StoreError>>;

    /// Gives a lease back, with nothing changed.
    fn release(&self, claim: Claim) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Reads one row.
    fn row(&self, action: ActionId) -> BoxFuture<'_, Result<Option<Linkage>, StoreError>>;

    /// Reads rows.
    fn rows(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Linkage>, StoreError>>;

    /// Counts rows.
    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>>;

    /// Cancels an action of the ledger. Final the moment it returns.
    fn cancel_action(&self, action: ActionId) -> BoxFuture<'_, Result<CancelOutcome, StoreError>>;

    /// Cancels a run of the ledger and its pending actions, which are returned; `None` when
    /// there is no such run.
    fn cancel_run(&self, run: RunId) -> BoxFuture<'_, Result<Option<Vec<ActionId>>, StoreError>>;

    /// Stores answers to requests for input.
    fn answer(
        &self,
        action: ActionId,
        answers: Map,
    ) -> BoxFuture<'_, Result<AnswerOutcome, StoreError>>;

    /// Makes the row of an action due at once; `false` when nothing is left to do for it.
    fn wake(&self, action: ActionId) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Makes the rows of a remote task due at once, and says how many there are.
    fn wake_remote(
        &self,
        registration: RegistrationId,
        kind: RemoteKind,
        id: String,
    ) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Adds a registration, enabled or not as it says, or gives one that is there its owner,
    /// endpoint and transport. Whether that one is enabled stays as it is: a new endpoint does
    /// not enable what was disabled meanwhile.
    fn put_registration(&self, registration: Registration)
    -> BoxFuture<'_, Result<(), StoreError>>;

    /// Enables or disables a registration; `false` when there is none.
    fn enable_registration(
        &self,
        id: RegistrationId,
        enabled: bool,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Removes a registration; `false` when there is none.
    fn remove_registration(&self, id: RegistrationId) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Reads the registrations of an owner, or of all.
    fn registrations(
        &self,
        owner: Option<OwnerId>,
    ) -> BoxFuture<'_, Result<Vec<Registration>, StoreError>>;

    /// News of other processes, where the engine carries any. Without them, what others did is
    /// noticed when the store is read again.
    fn news(&self) -> Option<broadcast::Receiver<News>> {
        None
    }
}

/// A store that many parts share.
pub type SharedStore = Arc<dyn Store>;

#[cfg(all(test, feature = "sqlite"))]
mod tests;
