//! Fakes and helpers that the workspace's tests share; not published.

mod logs;

pub use crate::logs::{LogLine, Logs};
