use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rvc_wire::ServerName;

use crate::connector::{Connector, NetConnector};
use crate::courier::{self, Route, WallClock};
use crate::engine::Engine;
use crate::poster::EventPoster;
use crate::skew::SkewWatch;
use crate::{Endpoint, QueueLimits, journal};

/// Sets up an [`EventPoster`]; every setting has the contract's default.
#[must_use = "a builder does nothing until it is built"]
pub struct EventPosterBuilder {
    server: ServerName,
    endpoint: Endpoint,
    max_connections: usize,
    queue: QueueLimits,
    attempt_timeout: Duration,
    give_up_after: Duration,
    extra_roots: Vec<Vec<u8>>,
    connector: Option<Box<dyn Connector>>,
    clock: WallClock,
}

impl EventPosterBuilder {
    pub(crate) fn new(server: ServerName, endpoint: Endpoint) -> Self {
        Self {
            server,
            endpoint,
            max_connections: 8,
            queue: QueueLimits::default(),
            attempt_timeout: Duration::from_secs(10),
            give_up_after: Duration::from_secs(600),
            extra_roots: Vec::new(),
            connector: None,
            clock: Box::new(system_clock),
        }
    }

    /// How many connections are kept at most, and so how many tasks' events go out side by side.
    /// 8 unless set. With one, a task whose events fail delays the others.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// How much is kept while it cannot be delivered (contract decision 15).
    pub fn queue(mut self, limits: QueueLimits) -> Self {
        self.queue = limits;
        self
    }

    /// How long one attempt may take, from connecting to the answer. 10 s unless set (contract
    /// decision 13).
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// How long an event may be at the head of its task's line before it is given up. 10 minutes
    /// unless set (contract decision 13). An attempt that is under way then may still succeed.
    pub fn give_up_after(mut self, time: Duration) -> Self {
        self.give_up_after = time;
        self
    }

    /// Trusts the certificates of a PEM file for an https endpoint, beside the system's.
    ///
    /// Those are read from where `SSL_CERT_FILE` and `SSL_CERT_DIR` say, if they are set.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.extra_roots.push(pem.into());
        self
    }

    /// Opens connections in another way than by TCP and TLS.
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.connector = Some(Box::new(connector));
        self
    }

    /// Takes the time that attempts are signed with, in unix seconds, from another clock than the
    /// system's.
    pub fn clock(mut self, unix_s: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        self.clock = Box::new(unix_s);
        self
    }

    /// Makes the poster. For an https endpoint this reads the system's certificates.
    ///
    /// Its tasks run in the runtime that this is called in, or else in the first one that it is
    /// used in.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if a setting leaves nothing to work with.
    pub fn build(self) -> Result<EventPoster, BuildError> {
        if self.max_connections == 0 {
            return Err(BuildError::NoConnections);
        }
        if self.queue.events == 0 || self.queue.bytes == 0 {
            return Err(BuildError::NoQueue);
        }
        if self.attempt_timeout.is_zero() || self.give_up_after.is_zero() {
            return Err(BuildError::NoTime);
        }
        let connector = match self.connector {
            Some(connector) => connector,
            None => Box::new(NetConnector::new(&self.endpoint, &self.extra_roots)?),
        };
        journal::enabled(&self.server, &self.endpoint);
        let route = Route {
            server_header: courier::header_value(self.server.as_str()),
            server: self.server,
            endpoint: self.endpoint,
            connector,
            clock: self.clock,
            attempt_timeout: self.attempt_timeout.min(LONGEST_TIME),
            skew: Mutex::new(SkewWatch::default()),
            doubtful_since: Mutex::new(None),
        };
        let give_up_after = self.give_up_after.min(LONGEST_TIME);
        let engine = Engine::new(route, self.queue, self.max_connections, give_up_after);
        Ok(EventPoster::posting(engine))
    }
}

impl fmt::Debug for EventPosterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventPosterBuilder")
            .field("server", &self.server)
            .field("endpoint", &self.endpoint)
            .field("max_connections", &self.max_connections)
            .field("queue", &self.queue)
            .field("attempt_timeout", &self.attempt_timeout)
            .field("give_up_after", &self.give_up_after)
            .finish_non_exhaustive()
    }
}

/// Why a poster cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nothing could ever be sent.
    #[error("at least one connection is needed")]
    NoConnections,

    /// Nothing could ever be queued.
    #[error("the queue needs room for at least one event and one byte")]
    NoQueue,

    /// No attempt could ever succeed.
    #[error("an attempt and an event need some time")]
    NoTime,

    /// An https endpoint could never be trusted.
    #[error("the system has no root certificates, and none were given")]
    NoRoots,

    /// A given root certificate cannot be used.
    #[error("a root certificate cannot be used: {reason}")]
    BadRoot {
        /// What is wrong with it.
        reason: String,
    },

    /// The host is nothing that a certificate can be issued to.
    #[error("host {0:?} is no name that a certificate can have")]
    NoServerName(String),
}

/// Seconds since 1970, negative before.
fn system_clock() -> i64 {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => seconds(since),
        Err(error) => -seconds(error.duration()),
    }
}

/// A year, so that no sum of times overflows.
const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 3_600);
