//! Servers of this crate, seen from outside.
#![allow(clippy::unwrap_used)]

mod extension;
mod process;
mod robot;
mod shutdown;
mod sse;
mod sse_client;
#[cfg(feature = "sse-client")]
mod sse_transport;
mod streamable;
mod tools;
