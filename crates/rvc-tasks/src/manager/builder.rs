use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rvc_wire::{ServerName, ShortName};

use super::{Inner, TaskManager};
use crate::companions::Companions;
use crate::port::Port;
use crate::registry::{Registry, Retention};
use crate::{Clock, EventSink, SystemClock};

/// The smallest event limit in which every end still fits.
const LEAST_EVENT_BYTES: usize = 8 * 1_024;

/// The settings of a [`TaskManager`].
#[must_use]
pub struct TaskManagerBuilder {
    server: ServerName,
    sink: Box<dyn EventSink>,
    clock: Box<dyn Clock>,
    short_name: Option<ShortName>,
    retention: Retention,
    max_event_bytes: usize,
    cancel_grace: Duration,
    drain: Duration,
}

impl TaskManagerBuilder {
    pub(super) fn new(server: ServerName, sink: Box<dyn EventSink>) -> Self {
        Self {
            server,
            sink,
            clock: Box::new(SystemClock),
            short_name: None,
            retention: Retention {
                tasks: 200,
                bytes: 64 * 1_024 * 1_024,
            },
            max_event_bytes: 1_024 * 1_024,
            cancel_grace: Duration::from_secs(5),
            drain: Duration::from_secs(5),
        }
    }

    /// What task ids start with; the first four characters of the server's name by default.
    pub fn short_name(mut self, short_name: ShortName) -> Self {
        self.short_name = Some(short_name);
        self
    }

    /// How many of the newest finished tasks are kept; 200 by default.
    pub const fn max_finished(mut self, tasks: usize) -> Self {
        self.retention.tasks = tasks;
        self
    }

    /// How many bytes of JSON finished tasks may leave in all, 64 MiB by default: results,
    /// failures and last progress reports of more than 1 KiB.
    ///
    /// Past it the oldest give up what they left, and keep their state: such a result reads
    /// `{"omitted": {"bytes": N}}`.
    pub const fn max_result_bytes(mut self, bytes: usize) -> Self {
        self.retention.bytes = bytes;
        self
    }

    /// The most bytes of one event; 1 MiB by default (contract decision 8).
    pub const fn max_event_bytes(mut self, bytes: usize) -> Self {
        self.max_event_bytes = bytes;
        self
    }

    /// How long a body may take to stop, unless its task says otherwise; 5 s by default.
    pub const fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// How long the sink may go on delivering when the manager closes; 5 s by default.
    pub const fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// The wall clock; the machine's by default.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// The manager.
    ///
    /// # Errors
    ///
    /// [`SetupError`] says which setting cannot work.
    pub fn build(self) -> Result<TaskManager, SetupError> {
        if let Some(sinks) = self.sink.server()
            && *sinks != self.server
        {
            return Err(SetupError::OtherServer {
                server: self.server.clone(),
                sinks: sinks.clone(),
            });
        }
        if self.max_event_bytes < LEAST_EVENT_BYTES {
            return Err(SetupError::EventsTooSmall {
                bytes: self.max_event_bytes,
                least: LEAST_EVENT_BYTES,
            });
        }
        let short_name = self.short_name.unwrap_or_else(|| self.server.short_name());
        let port = Port {
            server: self.server,
            sink: self.sink,
            clock: self.clock,
            max_event_bytes: self.max_event_bytes,
        };
        Ok(TaskManager {
            inner: Arc::new(Inner {
                cancel_grace: self.cancel_grace,
                drain: self.drain,
                short_name,
                port: Arc::new(port),
                apart: OnceLock::new(),
                registry: Mutex::new(Registry::new(self.retention)),
                companions: Companions::default(),
            }),
        })
    }
}

/// Why a manager cannot work as it is set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The sink signs for another server, and a receiver refuses such events.
    #[error("the event sink is bound to server {sinks}, not to {server}")]
    OtherServer {
        /// The manager's server.
        server: ServerName,
        /// The sink's.
        sinks: ServerName,
    },

    /// Not even an end would fit in an event.
    #[error("events of at most {bytes} bytes are too small, {least} is the least")]
    EventsTooSmall {
        /// The limit that was set, in bytes.
        bytes: usize,
        /// The smallest that works, in bytes.
        least: usize,
    },
}
