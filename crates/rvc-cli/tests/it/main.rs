//! Black-box tests of the binary.

#![allow(clippy::unwrap_used, missing_docs)]

mod demo;
mod event_check;
mod help;
mod listen;
mod rvc;
mod sign;
mod verify;
