//! Black-box tests of the binary.

#![allow(clippy::unwrap_used, missing_docs)]

#[cfg(feature = "crash-points")]
mod chaos;
mod demo;
mod dice;
mod durable;
mod event_check;
mod help;
#[cfg(feature = "crash-points")]
mod kill;
mod listen;
mod operator;
mod robot;
mod rvc;
mod serving;
mod sign;
mod verify;
