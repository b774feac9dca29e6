use std::time::Duration;

/// The operator's choices for all rows.
///
/// Three clocks stay apart: `request_timeout` bounds one call, a submission's `remote_task_ttl`
/// says how long a server keeps a task, its `execution_deadline` how long the host waits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// How long one call other than a start may take.
    pub request_timeout: Duration,
    /// How long a start may take; every progress notification starts it anew.
    pub start_timeout: Duration,
    /// How long a start may take in all, however much progress there is.
    pub max_start_time: Duration,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// The shortest time between two polls of a task.
    pub min_poll_interval: Duration,
    /// The longest time between two polls of a task.
    pub max_poll_interval: Duration,
    /// Answers in a row that a task is unknown, before it is believed.
    pub gone_confirmations: u32,
    /// Answers in a row that cannot be understood, before the task is given up.
    pub malformed_limit: u32,
    /// Starts in all, under the two policies that send again.
    pub start_limit: u32,
    /// Attempts to have remote work cancelled.
    pub cancel_attempts: u32,
    /// The largest result that is taken, in bytes of its JSON.
    pub max_result_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            start_timeout: Duration::from_secs(60),
            max_start_time: Duration::from_secs(3600),
            connect_timeout: Duration::from_secs(15),
            min_poll_interval: Duration::from_millis(500),
            max_poll_interval: Duration::from_secs(60),
            gone_confirmations: 3,
            malformed_limit: 5,
            start_limit: 5,
            cancel_attempts: 20,
            max_result_bytes: 16 << 20,
        }
    }
}
