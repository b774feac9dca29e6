use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::Checkpoint;
use crate::host::ForeignHost;
use crate::plan::{HORIZON, Jitter, Settings};

/// How a supervisor works.
#[derive(Clone)]
#[must_use]
pub struct SupervisorOptions {
    pub(crate) settings: Settings,
    pub(crate) max_concurrent: usize,
    pub(crate) max_per_registration: usize,
    pub(crate) lease: Duration,
    pub(crate) tick: Duration,
    pub(crate) census_interval: Duration,
    pub(crate) close_grace: Duration,
    pub(crate) host: Option<Arc<dyn ForeignHost>>,
    pub(crate) checkpoint: Option<Arc<dyn Checkpoint>>,
    pub(crate) jitter: Arc<dyn Fn() -> Jitter + Send + Sync>,
}

impl Default for SupervisorOptions {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            max_concurrent: Self::MAX_CONCURRENT,
            max_per_registration: Self::MAX_PER_REGISTRATION,
            lease: Self::LEASE,
            tick: Duration::from_secs(1),
            census_interval: Duration::from_secs(30),
            close_grace: Self::CLOSE_GRACE,
            host: None,
            checkpoint: None,
            jitter: Arc::new(random),
        }
    }
}

impl SupervisorOptions {
    /// Steps at once in all, unless [`concurrency`](Self::concurrency) says otherwise.
    pub const MAX_CONCURRENT: usize = 64;

    /// Steps at once of one registration, unless [`concurrency`](Self::concurrency) says
    /// otherwise.
    pub const MAX_PER_REGISTRATION: usize = 8;

    /// How long a row is held for one step, unless [`lease`](Self::lease) says otherwise.
    pub const LEASE: Duration = Duration::from_secs(30);

    /// How long the steps in hand may go on when the supervisor is closed, unless
    /// [`close_grace`](Self::close_grace) says otherwise.
    pub const CLOSE_GRACE: Duration = Duration::from_secs(10);

    /// Everything at its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the operator's choices.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Steps at once, in all (64) and of one registration (8). Both are at least one.
    pub fn concurrency(mut self, in_all: usize, per_registration: usize) -> Self {
        self.max_concurrent = in_all.max(1);
        self.max_per_registration = per_registration.max(1);
        self
    }

    /// How long a row is held for one step (30 s, an hour at most); a longer step prolongs it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_millis(10), HORIZON);
        self
    }

    /// How often to look for what other processes made due (1 s).
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick.max(Duration::from_millis(1));
        self
    }

    /// How long the steps in hand may go on when the supervisor is closed (10 s).
    ///
    /// A start whose answer comes later than that is as good as lost: see
    /// [`Durable::close`](crate::Durable::close).
    pub fn close_grace(mut self, grace: Duration) -> Self {
        self.close_grace = grace;
        self
    }

    /// Actions belong to this host instead of the ledger.
    pub fn host(mut self, host: Arc<dyn ForeignHost>) -> Self {
        self.host = Some(host);
        self
    }

    /// Calls `checkpoint` at every durable step. For a crash harness.
    pub fn checkpoint(mut self, checkpoint: Arc<dyn Checkpoint>) -> Self {
        self.checkpoint = Some(checkpoint);
        self
    }

    /// Takes the spread of due times from `jitter`. For a simulation.
    pub fn jitter(mut self, jitter: impl Fn() -> Jitter + Send + Sync + 'static) -> Self {
        self.jitter = Arc::new(jitter);
        self
    }
}

fn random() -> Jitter {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    let bits = u32::try_from(high >> 32).expect("half of 64 bits");
    Jitter::new(f64::from(bits) / f64::from(u32::MAX))
}
