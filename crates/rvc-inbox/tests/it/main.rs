//! Black-box tests of the inbox and its service.

#![allow(clippy::unwrap_used, missing_docs)]

mod accept;
mod at_least_once;
mod sender;
mod serve;
mod service;
