use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rvc_wire::{ServerName, TaskId};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::{
    CloseReport, ConfigError, Endpoint, EventPosterBuilder, OutgoingEvent, PosterConfig, journal,
};

/// Posts events to one endpoint, or to none (contract section 4.3).
///
/// Clones share one queue and its connections. When the last one is dropped without a
/// [`close`](Self::close), delivery ends at once and a log line says what was left.
#[derive(Clone)]
pub struct EventPoster {
    server: ServerName,
    posting: Option<Arc<Posting>>,
}

/// What the clones share; the tasks share the engine alone, so that they do not keep it running.
struct Posting {
    engine: Arc<Engine>,
}

impl EventPoster {
    /// A poster as the environment says: see [`PosterConfig::from_env`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a URL is set and cannot be used, or there is not exactly one good
    /// secret for it.
    pub fn from_env(server: ServerName) -> Result<Self, ConfigError> {
        Self::from_config(server, &PosterConfig::from_env()?)
    }

    /// A poster as a configuration says, with the contract's settings.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Build`] if an https endpoint could never be trusted.
    pub fn from_config(server: ServerName, config: &PosterConfig) -> Result<Self, ConfigError> {
        let Some(endpoint) = config.endpoint() else {
            return Ok(Self::disabled(server));
        };
        if let Some(warning) = config.warning() {
            tracing::warn!(%server, "{warning}");
        }
        Ok(Self::builder(server, endpoint.clone()).build()?)
    }

    /// A poster without an endpoint: it logs each event at DEBUG (contract section 3.4).
    #[must_use]
    pub fn disabled(server: ServerName) -> Self {
        journal::disabled(&server);
        Self {
            server,
            posting: None,
        }
    }

    /// Sets up a poster by hand.
    pub fn builder(server: ServerName, endpoint: Endpoint) -> EventPosterBuilder {
        EventPosterBuilder::new(server, endpoint)
    }

    pub(crate) fn posting(engine: Engine) -> Self {
        Self {
            server: engine.route().server.clone(),
            posting: Some(Arc::new(Posting {
                engine: Arc::new(engine),
            })),
        }
    }

    /// The server whose events these are.
    #[must_use]
    pub fn server(&self) -> &ServerName {
        &self.server
    }

    /// Takes an event for delivery. Never blocks, fails or panics.
    ///
    /// It leaves as soon as a thread of the runtime is free, also when the one that posted it is
    /// kept busy from then on. A current-thread runtime has no other one, and nothing leaves
    /// before its thread is free again.
    ///
    /// Outside a tokio runtime the event waits until the poster's tasks can run: in the runtime
    /// that it was built in, or else the first one that it is used in. After a close the event is
    /// dropped, which is logged.
    pub fn post(&self, event: OutgoingEvent) {
        match &self.posting {
            Some(posting) => posting.engine.post(event),
            None => journal::not_posted(&self.server, &event),
        }
    }

    /// Sends no more of what a task has reported so far: for one whose cancel was accepted
    /// (contract decision 19).
    ///
    /// The events that wait are dropped, whatever they are, those that wait for their next
    /// attempt too; a log line says how many. What is exempt is an event that is being attempted
    /// at this moment, and of a task that is one at most: its attempt cannot be recalled, goes on
    /// to its end ([`attempt_timeout`](EventPosterBuilder::attempt_timeout), 10 s, at the latest)
    /// and may still deliver it; if it fails, it is not repeated. Events posted afterwards are
    /// delivered like any others.
    pub fn forget(&self, task: &TaskId) {
        if let Some(posting) = &self.posting {
            posting.engine.forget(task);
        }
    }

    /// Takes no more events, delivers for at most `drain`, and reports what was left (contract
    /// decision 18).
    ///
    /// Whatever waits for its next attempt gets one at once, as far as connections are free: an
    /// endpoint that refused it may be well again. It waits on only while a `Retry-After` of the
    /// endpoint says so. What fails again follows its delays as before.
    ///
    /// A second call waits too, and gets the same report. Outside a tokio runtime there is nothing
    /// to wait for, and it reports at once.
    ///
    /// # Panics
    ///
    /// In a tokio runtime without a time driver (`enable_time`), which delivery needs as well.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its end, the poster takes no more events but goes on delivering those that
    /// it has; another call waits again.
    pub async fn close(&self, drain: Duration) -> CloseReport {
        match &self.posting {
            Some(posting) => posting.engine.close(drain).await,
            None => CloseReport::default(),
        }
    }
}

impl fmt::Debug for EventPoster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = self
            .posting
            .as_ref()
            .map(|posting| &posting.engine.route().endpoint);
        f.debug_struct("EventPoster")
            .field("server", &self.server)
            .field("endpoint", &endpoint)
            .finish_non_exhaustive()
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        self.engine.finish(Instant::now());
    }
}
