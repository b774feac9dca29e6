//! Delivers tasks' signed events to one endpoint: in order for each task, at least once.

mod close_report;
mod outgoing_event;
mod poster;

pub use crate::close_report::CloseReport;
pub use crate::outgoing_event::OutgoingEvent;
pub use crate::poster::EventPoster;
