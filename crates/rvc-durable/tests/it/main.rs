//! Black-box tests of the caller's side.
#![allow(clippy::unwrap_used)]

mod crashes;
mod faulty;
mod peer;
mod sdk_audit;
mod section_26;
mod world;
