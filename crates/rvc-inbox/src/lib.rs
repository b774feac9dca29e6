//! Receives the Async Task Contract's events.

mod accepted;
mod fingerprint;
mod gate;
mod handler;
mod inbox;
mod ledger;
mod rejection;
mod serve;
mod service;

pub use crate::accepted::{Accepted, Gap, Kind, Sighting};
pub use crate::handler::{Handler, NotNow};
pub use crate::inbox::{Inbox, InboxBuilder, InboxError};
pub use crate::rejection::Rejection;
pub use crate::serve::serve;
pub use crate::service::{EventService, EventServiceBuilder};
