//! The wire models against the golden vectors, and round trips of every type.

#![allow(clippy::unwrap_used)]

mod golden;
mod round_trip;
#[cfg(feature = "schema")]
mod schema;
