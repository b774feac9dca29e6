//! The release builds of the examples against peers that share no code with them.
//!
//! The peers are the scripts in `examples/interop`; `cargo xtask ci interop` sets them up.

mod check;
mod conformance;
mod durable;
mod inspector;
mod script;
mod section7;
mod server;
mod tasks;
