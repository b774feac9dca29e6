//! Black-box tests: golden vectors, faults by name, and properties.

#![allow(clippy::unwrap_used)]

mod faults;
mod http_headers;
mod properties;
mod vectors;

use rvc_sign::Secret;

/// The moment of the contract's own example.
const NOW: i64 = 1_765_532_000;

fn secret(bytes: &[u8]) -> Secret {
    Secret::new(bytes).unwrap()
}
