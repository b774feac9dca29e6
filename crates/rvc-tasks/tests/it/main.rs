//! Black-box tests of the task manager: lifecycle, events, triggers, cancels, faults.

#![allow(clippy::unwrap_used)]

mod apart;
mod cancel;
mod clock;
mod deadline;
mod handle;
mod interval;
mod lifecycle;
mod log_lines;
mod questions;
mod retention;
mod sinks;
mod support;
mod triggers;
mod watcher;
