//! Every rule of a linkage's life, as pure functions: no clock, no I/O.
//!
//! ```text
//! next(row, facts, now) ──► Step ──► (the supervisor does it) ──► Observation
//!                                                                     │
//!         row' ◄── started | polled | cancelled | updated | delivered ┘
//! ```
//!
//! Invariants, each a property test in `plan/tests.rs`:
//!
//! 1. An outcome is written once. No later observation changes it.
//! 2. Nothing but a tool result becomes a success.
//! 3. After the host's cancel no observation leads to another outcome.
//! 4. A start under `at_most_once` is sent at most once.
//! 5. A row that is not at rest has a next step that is due within [`HORIZON`].
//!
//! And one of a whole life: when the server dies, a row with a deadline or a known time to live
//! ends by it.

mod cancel;
mod observation;
mod poll;
mod settings;
mod settle;
mod start;
mod step;
mod timing;

pub use self::cancel::{cancel_answered, closed, looked};
pub use self::observation::{CancelAnswer, PollAnswer, RemoteState, StartAnswer, UpdateAnswer};
pub use self::poll::{polled, updated};
pub use self::settings::Settings;
pub use self::settle::{
    deferred, delivered, delivery_failed, leaves_unwatched, settled, suppressed,
};
pub use self::start::{begun, late, may_resend, started, unreachable};
pub use self::step::{Facts, RunState, Step, next};
pub use self::timing::{HORIZON, Jitter};

#[cfg(test)]
mod tests;
