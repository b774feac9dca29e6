//! Delivers tasks' signed events to one endpoint: in order for each task, at least once.

mod builder;
mod close_report;
mod config;
mod connection;
mod connector;
mod courier;
mod crew;
mod delivery_error;
mod endpoint;
mod engine;
mod journal;
mod limits;
mod line;
mod outage;
mod outbox;
mod outgoing_event;
mod poster;
mod queue;
mod retry;
#[cfg(test)]
mod sample;
mod schedule;
mod shed_log;
mod skew;
mod timekeeper;
mod tls;
mod worker;

pub use crate::builder::{BuildError, EventPosterBuilder};
pub use crate::close_report::CloseReport;
pub use crate::config::{ConfigError, PosterConfig};
pub use crate::connector::{Connecting, Connector, Transport};
pub use crate::endpoint::{Endpoint, EndpointError};
pub use crate::limits::QueueLimits;
pub use crate::outgoing_event::OutgoingEvent;
pub use crate::poster::EventPoster;
