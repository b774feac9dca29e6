//! x
mod access;
mod config;
mod server;
mod sse;
mod streamable;

pub use crate::config::{ConfigError, ServeConfig, Transport};
pub use crate::server::{ServeError, Server, serve};
