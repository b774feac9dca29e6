use std::time::Duration;

/// How the tasks of one tool are handed out to clients of the official extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct ToolTasks {
    pub(super) required: bool,
    pub(super) ttl: Option<Duration>,
    pub(super) poll_interval: Duration,
}

impl ToolTasks {
    /// Readable for an hour from its creation, polled every second, and open to every client.
    pub const fn new() -> Self {
        Self {
            required: false,
            ttl: Some(Duration::from_secs(60 * 60)),
            poll_interval: Duration::from_secs(1),
        }
    }

    /// Refuses clients that have not declared the extension, with `-32021`, before the tool is
    /// called.
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// How long after its creation a task stays readable: its `ttlMs`. A task that runs is never
    /// ended by it; the announced time is raised instead.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Its tasks stay readable until the server ends: `ttlMs` is null.
    pub const fn unlimited_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }

    /// How often a client should poll: its `pollIntervalMs`. It is lowered near an expected end.
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }
}

impl Default for ToolTasks {
    fn default() -> Self {
        Self::new()
    }
}
