//! Black-box tests: a poster and a scripted endpoint.

#![allow(clippy::unwrap_used)]

mod answers;
mod close;
mod forget;
mod hung;
mod keep_alive;
mod logs;
mod order;
mod outage;
mod overflow;
mod panics;
mod runtime;
mod signing;
mod support;
mod tls;
