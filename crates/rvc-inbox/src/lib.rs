//! Receives the Async Task Contract's events: verifies, dedupes, finds gaps.
//!
//! ```text
//!  POST ─► size ─► headers ─► body ─► signature ─► JSON ─► server ─► ledger ─► Handler ─► 200
//!           413      401    408 413      401       400      401     duplicate    503
//!                                                                    └─► 200
//! ```
//!
//! [`Inbox`] is the part that decides, without any I/O: it takes headers, body and the time, and
//! answers what the event is or why it is refused. [`EventService`] puts hyper around it, and
//! [`serve`] a listener around that. A brain that has an HTTP server of its own uses the
//! [`Inbox`] alone, or mounts the service.
//!
//! # Examples
//!
//! The deciding part. Who sends is [`rvc_sign`]'s side.
//!
//! ```
//! use http::HeaderMap;
//! use rvc_inbox::{Inbox, Kind};
//! use rvc_sign::{Secret, SignedHeaders};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let secret = Secret::new(b"s3cret")?;
//! let mut inbox = Inbox::builder()
//!     .server("navigation".parse()?, [secret.clone()])
//!     .build()?;
//!
//! // What a server sends:
//! let now = 1_765_532_000;
//! let body = br#"{"schema_version": 1, "event_id": "8c1f0e2a-3f0d-4c59-9b52-6b1c6f5b7d11",
//!     "task_id": "navi-7f3a2b", "server": "navigation", "tool": "navigate_to",
//!     "type": "progress", "seq": 3, "ts": "2026-06-12T14:03:00.123Z", "payload": {}}"#;
//! let signed = SignedHeaders::new(&secret, now, body);
//! let mut headers = HeaderMap::new();
//! headers.insert("x-rvc-server", "navigation".parse()?);
//! headers.insert("x-rvc-timestamp", signed.timestamp().parse()?);
//! headers.insert("x-rvc-signature", signed.signature().parse()?);
//!
//! let accepted = inbox.accept(&headers, body, now)?;
//! assert_eq!(accepted.kind, Kind::New);
//! // The receiver started in the middle of this task.
//! assert_eq!(accepted.gap.unwrap().to_string(), "seq 1 to 2 are missing");
//! assert!(accepted.should_poll());
//!
//! // The acknowledgement was lost, so it comes again.
//! assert_eq!(inbox.accept(&headers, body, now)?.kind, Kind::Duplicate);
//!
//! // Its signature is too old for another day.
//! let rejection = inbox.accept(&headers, body, now + 86_400).unwrap_err();
//! assert_eq!((rejection.status().as_u16(), rejection.verdict()), (401, "stale"));
//! # Ok(())
//! # }
//! ```
//!
//! A whole receiver:
//!
//! ```no_run
//! use rvc_inbox::{Accepted, EventService, Inbox, serve};
//! use rvc_sign::Secret;
//! use tokio::net::TcpListener;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let inbox = Inbox::builder()
//!     .server("navigation".parse()?, [Secret::new(b"s3cret")?])
//!     .build()?;
//! let service = EventService::builder(inbox, |accepted: Accepted| async move {
//!     println!("{} {}", accepted.event.task_id, accepted.event.event_type);
//!     Ok(())
//! })
//! .build();
//! let listener = TcpListener::bind("127.0.0.1:8000").await?;
//! serve(listener, service, async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Nothing of an event counts before its signature has verified over the raw bytes of its body,
//!   and the server of the body is the one whose secret signed it. A request that is not signed
//!   costs at most one MAC over its body, and 1 MiB and 64 KiB of memory while it lasts.
//! - An event is [`Kind::New`] exactly once in the life of an inbox, in bounded memory. A replay
//!   of a request is never new: where its id is forgotten it is [`Rejection::Indistinct`], and
//!   a new event gets through with its sender's next attempt. A retry is never new unless, between
//!   two attempts at it, more events of its server came than are remembered (65,536) and also
//!   more tasks than are tracked (4,096). A new inbox (a restarted receiver) knows nothing, and
//!   takes each event once more.
//! - No new event is ever called a duplicate.
//! - A [`Handler`] has each new event before its sender gets a 2xx, and once after it said `Ok`.
//!   If the process dies in between, the sender tries again: at least once.
//! - Events of one task come in order from a sender that keeps to the contract. A [`Gap`] in
//!   `seq` is named, a `seq` that starts again is another task ([`Sighting::Again`]), and
//!   [`Accepted::should_poll`] says when to ask `get_task`.
//! - No request ends the receiver, and no peer holds a connection for longer than 30 s without
//!   sending a head or without taking an answer, or for longer than 10 s with an unfinished body.
//!
//! # Cancel safety
//!
//! [`EventService::respond`] is cancel safe: an event that its handler has is handled to its end.
//! Dropping [`serve`] accepts nothing new and lets requests under way finish.
//!
//! # Crate features
//!
//! None.

mod accepted;
mod fingerprint;
mod gate;
mod handler;
mod inbox;
mod ledger;
mod rejection;
mod serve;
mod service;
mod stall_guard;

pub use crate::accepted::{Accepted, Gap, Kind, Sighting};
pub use crate::handler::{Handler, NotNow};
pub use crate::inbox::{Inbox, InboxBuilder, InboxError};
pub use crate::rejection::Rejection;
pub use crate::serve::serve;
pub use crate::service::{EventService, EventServiceBuilder};
