//! The wire models against the golden vectors, and round trips of every type.

mod golden;
mod round_trip;
#[cfg(feature = "schema")]
mod schema;
