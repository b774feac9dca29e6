use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, ElicitationCapability, ExtensionCapabilities,
    FormElicitationCapability, Implementation, JsonObject, ProtocolVersion, ServerResult,
    TASKS_EXTENSION_ID,
};
use rmcp::service::{ClientInitializeError, Peer, RunningService};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Dialer;
use super::call::{Bounds, call};
use super::failure::{CallFailure, chain, denied, in_transport};
use crate::name::{OwnerId, RegistrationId};
use crate::plan::Settings;
use crate::registration::{Registration, TransportKind};

/// Why no connection could be had. Nothing was sent that starts anything.
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
    slots: Arc<std::sync::Mutex<HashMap<(RegistrationId, OwnerId), Arc<Mutex<Slot>>>>>,
    ailing: Arc<std::sync::Mutex<HashSet<RegistrationId>>>,
}

/// An owner's connection to a registration, or how the last attempt at one failed.
#[derive(Default)]
struct Slot {
    connection: Option<Connection>,
    failed: Option<(Instant, Unreachable)>,
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

    /// A call was answered.
    pub(crate) fn answered(&self, registration: &RegistrationId) {
        let mut ailing = self.ailing.lock().unwrap_or_else(PoisonError::into_inner);
        ailing.remove(registration);
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
        let asked = Instant::now();
        let slot = self.slot(registration);
        let mut slot = slot.lock().await;
        if let Some(connection) = slot
            .connection
            .as_ref()
            .filter(|it| it.serves(registration))
        {
            return Ok(connection.clone());
        }
        if let Some((at, failure)) = &slot.failed
            && *at >= asked
        {
            return Err(failure.clone());
        }
        slot.connection = None;
        match Box::pin(self.open(registration)).await {
            Ok(connection) => {
                slot.failed = None;
                slot.connection = Some(connection.clone());
                Ok(Connection {
                    is_fresh: true,
                    ..connection
                })
            }
            Err(failure) => {
                self.unanswered(&registration.id);
                slot.failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    /// Gives a connection up, so that the next call builds a new one.
    pub(crate) async fn give_up(&self, registration: &RegistrationId, broken: &Connection) {
        self.unanswered(registration);
        let slot = self.slot(&broken.registration);
        let mut slot = slot.lock().await;
        if slot
            .connection
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(&it.service, &broken.service))
        {
            slot.connection = None;
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
            let connection = slot.lock().await.connection.take();
            if let Some(service) = connection.and_then(|it| Arc::into_inner(it.service)) {
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, service.cancel()).await;
            }
        }
    }

    fn slot(&self, registration: &Registration) -> Arc<Mutex<Slot>> {
        let key = (registration.id.clone(), registration.owner.clone());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry(key).or_default().clone()
    }

    async fn open(&self, registration: &Registration) -> Result<Connection, Unreachable> {
        let opening = async {
            let transport = self
                .dialer
                .dial(registration)
                .await
                .map_err(|error| Unreachable {
                    reason: error.reason,
                    retry_after: error.retry_after,
                })?;
            let lifecycle = match registration.transport {
                // With plain `initialize` some servers never create tasks.
                TransportKind::StreamableHttp => ClientLifecycleMode::Auto {
                    preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                    legacy_version: None,
                },
                // The version with discovery and tasks has no such transport. Old servers do not
                // expect anything before `initialize`.
                TransportKind::Sse => ClientLifecycleMode::Initialize,
            };
            let client = Client(registration.transport);
            client
                .serve_with_lifecycle(transport, lifecycle)
                .await
                .map_err(|error| handshake_failed(&error))
        };
        let limit = self.settings.connect_timeout;
        let service = tokio::time::timeout(limit, opening)
            .await
            .unwrap_or_else(|_| Err(unreachable(format!("no connection within {limit:?}"))))?;
        Ok(Connection {
            service: Arc::new(service),
            registration: registration.clone(),
            settings: self.settings.clone(),
            was_denied: Arc::default(),
            is_fresh: false,
        })
    }
}

fn unreachable(reason: String) -> Unreachable {
    Unreachable {
        reason,
        retry_after: None,
    }
}

fn handshake_failed(error: &ClientInitializeError) -> Unreachable {
    if let ClientInitializeError::TransportError { error, .. } = error {
        match in_transport(error.error.as_ref()) {
            CallFailure::NotSent {
                reason,
                retry_after,
            }
            | CallFailure::Lost {
                reason,
                retry_after,
            } => {
                return Unreachable {
                    reason,
                    retry_after,
                };
            }
            CallFailure::Denied { status } => return unreachable(denied(status)),
            CallFailure::Rpc(_) | CallFailure::TooLarge => {}
        }
    }
    unreachable(chain(error))
}

/// An open connection to one server.
#[derive(Clone)]
pub struct Connection {
    service: Arc<RunningService<RoleClient, Client>>,
    registration: Registration,
    pub(super) settings: Arc<Settings>,
    /// The server refused this connection's token; another comes with another connection.
    was_denied: Arc<AtomicBool>,
    /// It was opened for whoever has it, with the token of this moment.
    pub(super) is_fresh: bool,
}

impl Connection {
    fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Sends one request and waits for its answer, for a bounded time.
    pub(super) async fn call(
        &self,
        request: ClientRequest,
        bounds: Bounds,
    ) -> Result<ServerResult, CallFailure> {
        let answer = call(self.peer(), request, bounds).await;
        if matches!(answer, Err(CallFailure::Denied { .. })) {
            self.was_denied.store(true, Ordering::Relaxed);
        }
        answer
    }

    fn serves(&self, registration: &Registration) -> bool {
        self.registration == *registration
            && !self.peer().is_transport_closed()
            && !self.was_denied.load(Ordering::Relaxed)
    }
}

/// What we say of ourselves over a transport: tasks, and input for those that ask for it.
struct Client(TransportKind);

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let mut elicitation = ElicitationCapability::default();
        elicitation.form = Some(FormElicitationCapability::new());
        capabilities.elicitation = Some(elicitation);
        if self.0 == TransportKind::StreamableHttp {
            let mut extensions = ExtensionCapabilities::new();
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
            capabilities.extensions = Some(extensions);
        }
        let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(capabilities, name);
        if self.0 == TransportKind::Sse {
            config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        }
        config
    }
}

/// How long a server gets to end a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
