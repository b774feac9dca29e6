//! Servers of this crate, seen from outside.
#![allow(clippy::unwrap_used)]

mod extension;
mod process;
mod robot;
mod shutdown;
mod sse;
mod sse_client;
mod streamable;
mod tools;
