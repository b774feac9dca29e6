use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Connection, DialError, Dialer, Token};
use crate::name::{OwnerId, RegistrationId};
use crate::plan::{CancelAnswer, PollAnswer, Settings, UpdateAnswer};
use crate::registration::Registration;

/// Why no connection could be had, or why a call over one says nothing of its task. Nothing was
/// sent that starts anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unreachable {
    /// What failed.
    pub reason: String,
    /// When the server wants to be tried again.
    pub retry_after: Option<Duration>,
}

/// The connections to all servers: one for each registration and owner, rebuilt when it breaks.
///
/// Owners share none, since a connection carries the token of the one that it was opened for.
#[derive(Clone)]
pub struct Remotes {
    dialer: Arc<dyn Dialer>,
    settings: Arc<Settings>,
    slots: Arc<std::sync::Mutex<Slots>>,
    ailing: Arc<std::sync::Mutex<HashSet<RegistrationId>>>,
}

type Slots = HashMap<(RegistrationId, OwnerId), Arc<Mutex<Slot>>>;

/// An owner's connection to a registration, or how the last attempt at one failed.
#[derive(Default)]
struct Slot {
    kept: Option<Kept>,
    failed: Option<(Instant, Unreachable)>,
}

struct Kept {
    connection: Connection,
    /// With which it was opened.
    token: Option<Token>,
    /// When the dialer was last asked, and said that it is the one to use.
    confirmed: Instant,
}

impl Remotes {
    /// No connections yet.
    #[must_use]
    pub fn new(dialer: Arc<dyn Dialer>, settings: Settings) -> Self {
        Self {
            dialer,
            settings: Arc::new(settings),
            slots: Arc::default(),
            ailing: Arc::default(),
        }
    }

    /// Registrations whose last call got no answer. They get one call at a time, so that any
    /// number of dead servers leaves room for the others.
    pub(crate) fn ailing(&self) -> Vec<RegistrationId> {
        let ailing = self.ailing.lock().unwrap_or_else(PoisonError::into_inner);
        ailing.iter().cloned().collect()
    }

    /// What a call over `connection` says of it and of its server.
    pub(crate) async fn heard(&self, connection: &Connection, answered: bool) {
        if answered {
            self.answered(connection);
        } else {
            self.give_up(connection).await;
        }
    }

    /// A call was answered.
    pub(crate) fn answered(&self, connection: &Connection) {
        let mut ailing = self.ailing.lock().unwrap_or_else(PoisonError::into_inner);
        ailing.remove(&connection.registration.id);
    }

    fn unanswered(&self, registration: &RegistrationId) {
        let mut ailing = self.ailing.lock().unwrap_or_else(PoisonError::into_inner);
        ailing.insert(registration.clone());
    }

    /// A connection to the server of `registration`: the one there is, or a new one.
    ///
    /// Connects once, however many ask; they share the failure.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or does not speak MCP within the connect timeout.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a connection that is half open is dropped.
    pub async fn connect(&self, registration: &Registration) -> Result<Connection, Unreachable> {
        self.connection(registration, false).await
    }

    /// The same for a start: the connection was opened with the token that the dialer has now,
    /// so that one which expired meanwhile costs no start.
    ///
    /// # Errors
    ///
    /// See [`connect`](Self::connect); also when there is no token now.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a connection that is half open is dropped.
    pub async fn connect_to_start(
        &self,
        registration: &Registration,
    ) -> Result<Connection, Unreachable> {
        self.connection(registration, true).await
    }

    async fn connection(
        &self,
        registration: &Registration,
        to_start: bool,
    ) -> Result<Connection, Unreachable> {
        let asked = Instant::now();
        let slot = self.slot(registration);
        let mut slot = slot.lock().await;
        let kept = slot.kept.as_ref();
        if let Some(kept) = kept.filter(|it| it.connection.serves(registration))
            && (!to_start || kept.confirmed >= asked)
        {
            return Ok(kept.connection.clone());
        }
        if let Some((at, failure)) = &slot.failed
            && *at >= asked
        {
            return Err(failure.clone());
        }
        let limit = self.settings.connect_timeout;
        let opened = tokio::time::timeout(limit, self.renew(&mut slot, registration));
        let opened = Box::pin(opened).await;
        match opened.unwrap_or_else(|_| Err(unreachable(format!("no connection within {limit:?}"))))
        {
            Ok(connection) => {
                slot.failed = None;
                Ok(connection)
            }
            Err(failure) => {
                self.unanswered(&registration.id);
                slot.failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    /// The connection there is, where it has the token to use now; else a new one.
    async fn renew(
        &self,
        slot: &mut Slot,
        registration: &Registration,
    ) -> Result<Connection, Unreachable> {
        let confirmed = Instant::now();
        let token = self.dialer.token(registration).await?;
        if let Some(kept) = &mut slot.kept
            && kept.connection.serves(registration)
            && kept.token == token
        {
            kept.confirmed = confirmed;
            return Ok(kept.connection.clone());
        }
        slot.kept = None;
        let transport = self.dialer.dial(registration, token.clone()).await?;
        let mut connection = Connection::open(transport, registration, &self.settings).await?;
        slot.kept = Some(Kept {
            connection: connection.clone(),
            token,
            confirmed,
        });
        connection.is_fresh = true;
        Ok(connection)
    }

    /// Gives a connection up, so that the next call builds a new one.
    pub(crate) async fn give_up(&self, broken: &Connection) {
        self.unanswered(&broken.registration.id);
        let slot = self.slot(&broken.registration);
        let mut slot = slot.lock().await;
        let kept = slot.kept.as_ref();
        if kept.is_some_and(|it| it.connection.is(broken)) {
            slot.kept = None;
        }
    }

    /// Closes every connection.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the rest is closed when it is dropped.
    pub async fn close(&self) {
        let slots: Vec<_> = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.drain().map(|(_, slot)| slot).collect()
        };
        for slot in slots {
            // A call that is still under way keeps the service until it ends.
            let kept = slot.lock().await.kept.take();
            if let Some(kept) = kept {
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, kept.connection.close()).await;
            }
        }
    }

    fn slot(&self, registration: &Registration) -> Arc<Mutex<Slot>> {
        let key = (registration.id.clone(), registration.owner.clone());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry(key).or_default().clone()
    }
}

impl From<DialError> for Unreachable {
    fn from(error: DialError) -> Self {
        Self {
            reason: error.reason,
            retry_after: error.retry_after,
        }
    }
}

impl From<Unreachable> for PollAnswer {
    fn from(failure: Unreachable) -> Self {
        Self::Unavailable {
            reason: failure.reason,
            retry_after: failure.retry_after,
        }
    }
}

impl From<Unreachable> for CancelAnswer {
    fn from(failure: Unreachable) -> Self {
        Self::Unavailable {
            reason: failure.reason,
            retry_after: failure.retry_after,
        }
    }
}

impl From<Unreachable> for UpdateAnswer {
    fn from(failure: Unreachable) -> Self {
        Self::Unavailable {
            reason: failure.reason,
            retry_after: failure.retry_after,
        }
    }
}

pub(super) fn unreachable(reason: String) -> Unreachable {
    Unreachable {
        reason,
        retry_after: None,
    }
}

/// How long a server gets to end a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
