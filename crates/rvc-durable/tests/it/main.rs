//! Black-box tests of the caller's side.
#![allow(clippy::unwrap_used)]

mod closing;
mod contract;
mod crashes;
#[cfg(feature = "postgres")]
mod database;
mod engine;
mod fastmcp;
mod faulty;
mod foreign;
mod hostile;
mod http_peer;
mod input;
mod limits;
mod live;
mod observability;
mod paused_worker;
mod peer;
#[cfg(feature = "postgres")]
mod postgres;
mod replicas;
mod rmcp_server;
mod rotating;
mod scale;
mod sdk_audit;
mod section_26;
mod simulation;
mod sse;
mod sse_peer;
mod tokens;
mod world;
