//! The deprecated HTTP+SSE transport, which deployed brains still use.
//!
//! ```text
//! GET /sse ───────────────► Sessions::open ─► EventStream ─► event: endpoint
//!                                │                           event: message …
//!                                ▼                              ▲
//! POST /messages/?session_id ─► Session ─► SseTransport ─► rmcp service
//! ```
//!
//! A session is the life of its event stream. When the stream is dropped, by the client or by
//! its connection, the rmcp service behind it ends; when the service ends, so does the stream.
//!
//! 1. An answer is owed from the moment its request is taken until its frame was handed to
//!    the connection. At most [`session::MAX_OWED`] are, so that a client that does not read its
//!    stream cannot make the server grow.
//! 2. Nothing here waits for the client while it holds a lock.

mod body;
mod frame;
mod service;
mod session;
mod stream;
#[cfg(test)]
mod tests;
mod transport;

pub(crate) use self::service::SseService;
