use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use rvc_wire::Map;
use uuid::Uuid;

use crate::linkage::{Fence, Linkage};
use crate::moment::Moment;
use crate::name::{ActionId, RegistrationId};
use crate::phase::Phase;
use crate::plan::RunState;
use crate::registration::Registration;

/// Who holds a lease: fresh for every process, so that nobody inherits one by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseOwner(Uuid);

impl LeaseOwner {
    /// A new owner.
    #[must_use]
    pub fn draw() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for LeaseOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which due rows to lease.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// Who asks.
    pub owner: LeaseOwner,
    /// At most so many.
    pub limit: u32,
    /// At most so many of one registration, those that the owner already has in hand included.
    pub per_registration: u32,
    /// What the owner has in hand, by registration.
    pub in_hand: HashMap<RegistrationId, u32>,
    /// Whom the claim before this one served last. Registrations of which the owner has least in
    /// hand come first, and of equals those behind this one, so that none is passed over again
    /// and again.
    pub served: Option<RegistrationId>,
    /// For how long.
    pub lease: Duration,
    /// What the owner has in hand, by action. Where a lease of it ran out, because the process was
    /// stopped for longer, it is not the owner itself that takes the row: the step in hand goes on.
    pub mine: Vec<ActionId>,
}

impl ClaimRequest {
    /// A request of `owner` for up to `limit` rows.
    #[must_use]
    pub fn new(owner: LeaseOwner, limit: u32, lease: Duration) -> Self {
        Self {
            owner,
            limit,
            per_registration: limit,
            in_hand: HashMap::new(),
            served: None,
            lease,
            mine: Vec::new(),
        }
    }
}

/// The right to write one row, until somebody else leases it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The row.
    pub action: ActionId,
    /// Who holds it.
    pub owner: LeaseOwner,
    /// Compared on every write.
    pub fence: Fence,
    /// How often the row had been woken when it was claimed: a later wake is not lost.
    pub wakes: u64,
}

/// A row that was leased.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Claimed {
    /// The right to write it.
    pub claim: Claim,
    /// The row.
    pub row: Linkage,
    /// Whether an earlier holder never wrote it back.
    pub recovered: bool,
    /// When the lease ends, by the store's clock.
    pub until: Moment,
    /// What else planning needs, read in the same transaction.
    pub surroundings: Surroundings,
}

/// What the store knows for planning a step, besides the row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Surroundings {
    /// The ledger's run; `None` when it has none by that id.
    pub run: Option<RunState>,
    /// The registration, if there is one by that id.
    pub registration: Option<Registration>,
    /// Answers of the host that were not sent yet.
    pub answers: Map,
}

/// What a claim brought.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Claims {
    /// The rows.
    pub rows: Vec<Claimed>,
    /// The store's clock.
    pub now: Moment,
    /// Whether as many rows were found as were asked for, so that there may be more.
    pub is_full: bool,
    /// When the next row that is not due yet will be. Not told where the claim is full.
    pub next_due: Option<Moment>,
}

/// One write of a claimed row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Write {
    /// The right to do so.
    pub claim: Claim,
    /// The phase that the row must still have.
    pub expect: Phase,
    /// The row as it shall be. What was asked for cannot change and is not written.
    pub row: Linkage,
    /// Whether the lease is kept, for a further write.
    pub keep_lease: bool,
    /// Keys of answers that were sent.
    pub answered: Vec<String>,
    /// Keys of answers that the server refused: they are forgotten, and may be given again.
    pub refused: Vec<String>,
    /// The same for every attempt at this write, and no other's: where the answer to a commit
    /// was lost, it tells whether it is done.
    pub id: Uuid,
}

impl Write {
    /// Writes `row` where the phase is still `expect`, and gives the lease back.
    #[must_use]
    pub fn new(claim: Claim, expect: Phase, row: Linkage) -> Self {
        Self {
            claim,
            expect,
            row,
            keep_lease: false,
            answered: Vec::new(),
            refused: Vec::new(),
            id: Uuid::new_v4(),
        }
    }

    /// Keeps the lease.
    #[must_use]
    pub fn keep_lease(mut self) -> Self {
        self.keep_lease = true;
        self
    }

    /// Marks answers as sent.
    #[must_use]
    pub fn answered(mut self, keys: Vec<String>) -> Self {
        self.answered = keys;
        self
    }

    /// Forgets answers that were refused.
    #[must_use]
    pub fn refused(mut self, keys: Vec<String>) -> Self {
        self.refused = keys;
        self
    }

    /// Whether it changes nothing about answers.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn leaves_answers(&self) -> bool {
        self.answered.is_empty() && self.refused.is_empty()
    }
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Written {
    /// It is durable.
    Applied,
    /// Somebody else has leased the row since. Nothing was changed.
    Stale,
    /// The lease stands, but the host cancelled meanwhile; this is the row now. Nothing was
    /// changed, and the lease is kept.
    Overtaken(Box<Linkage>),
    /// The remote task belongs to another action. Nothing was changed, and the lease is kept.
    RemoteTaken,
}

/// What became of prolonging a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewed {
    /// It is prolonged.
    Held,
    /// It is prolonged, and the host has cancelled meanwhile.
    Cancelled,
    /// Somebody else has the row.
    Lost,
}
