//! Black-box tests of the task manager: lifecycle, events, triggers, cancels, faults.

#![allow(clippy::unwrap_used)]

mod cancel;
mod lifecycle;
mod support;
