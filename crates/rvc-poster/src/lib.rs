//! Delivers tasks' signed events to one endpoint: in order for each task, at least once.
//!
//! ```text
//!                    ┌─ task nav-1 ─ 4 5 6 ─┐
//!  post(event) ─────►┤  task nav-2 ─ 1 2    ├─► take ─► sign ─► POST ─► 2xx: the next one
//!  (never waits)     └─ task per-9 ─ 7 … 99─┘    ▲                │
//!                      bounded; the longest      └── 0.5 s, 2 s, ◄┘ anything else
//!                      line gives way first          8 s, 30 s, …, given up after 10 min
//! ```
//!
//! A server makes one [`EventPoster`] and posts whatever its tasks report. Where events go is
//! said by `RVC_CALLBACK_URL` and `RVC_EVENT_SECRET` ([`EventPoster::from_env`]), or by a builder.
//! Without a URL it logs events and does nothing else.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! use rvc_poster::{Endpoint, EventPoster, OutgoingEvent, Secret};
//! use rvc_wire::TaskEvent;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let secret = Secret::new(b"s3cret")?;
//! let endpoint = Endpoint::new("http://127.0.0.1:9/api/agent/events", secret)?;
//! let poster = EventPoster::builder("navigation".parse()?, endpoint)
//!     .max_connections(4)
//!     .build()?;
//!
//! let event = TaskEvent::from_json(
//!     br#"{
//!         "event_id": "8c1f0e2a-3f0d-4c59-9b52-6b1c6f5b7d11",
//!         "task_id": "nav-7f3a2b", "server": "navigation", "tool": "navigate_to",
//!         "type": "progress", "seq": 1, "ts": "2026-06-12T14:03:00.123Z",
//!         "payload": {"eta_s": 22.4}
//!     }"#,
//! )?;
//! poster.post(OutgoingEvent::encode(&event));
//!
//! // Nobody listens there, and there is no time left to wait for somebody.
//! let report = poster.close(Duration::ZERO).await;
//! assert_eq!(report.undelivered[&event.task_id], 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - *In order.* Of a task one event at a time is in flight, and the next one waits until it is
//!   acknowledged, given up, dropped for lack of room or forgotten. No task waits for another task's
//!   event, as long as a connection is free. While the events of some tasks fail, these share half
//!   of the connections with tasks of which nothing was acknowledged yet.
//! - *At least once.* An event is sent until a 2xx answers, or for ten minutes from when it came
//!   to the head of its task's line, unless one of the next two rules drops it. It may arrive more
//!   often; `event_id` and body are the same every time, the signature and its timestamp are those
//!   of the attempt.
//! - *Bounded.* A full queue drops progress, then watch events, then triggers of the longest
//!   line; an end of a task or an event that was attempted, never. The gap in `seq` tells the
//!   receiver to poll. Nothing survives the process.
//! - *Silent once told so.* [`EventPoster::forget`] drops what a task has not sent yet. The one
//!   event that is being attempted just then may still arrive, and is not attempted again. No
//!   later event shows the gap in `seq`; who asked for the cancel knows, others poll.
//! - *Harmless.* [`EventPoster::post`] never waits, fails or panics. An endpoint that hangs, drips
//!   or never stops costs its own attempts and nothing else, and so does a [`Connector`] or a clock that panics.
//!   Redirects are not followed.
//! - Everything that is lost is logged. No secret and no query of a URL ever is.
//!
//! # Cancel safety
//!
//! [`EventPoster::close`] is the one async function. Dropped before its end, it leaves a poster
//! that takes no more events and goes on delivering those it has. Dropping the last clone of a
//! poster ends delivery at once.
//!
//! # Crate features
//!
//! None. TLS is rustls on ring, with the system's root certificates.

mod alarm;
mod builder;
mod close_report;
mod config;
mod connection;
mod connector;
mod courier;
mod crew;
mod delivery_error;
mod departure;
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
/// What events are signed with, for crates that need nothing else of `rvc-sign`.
pub use rvc_sign::Secret;
