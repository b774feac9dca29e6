//! Fakes and helpers that the workspace's tests share; not published.

mod endpoint;
mod logs;
pub mod postgres;
mod proxy;

pub use crate::endpoint::{Received, Reply, ScriptedEndpoint};
pub use crate::logs::{LogLine, Logs};
pub use crate::proxy::{FaultProxy, Target};
