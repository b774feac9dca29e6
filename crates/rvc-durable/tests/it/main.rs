//! Black-box tests of the caller's side.
#![allow(clippy::unwrap_used)]

mod sdk_audit;
