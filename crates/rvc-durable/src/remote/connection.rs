use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, ElicitationCapability, ExtensionCapabilities,
    FormElicitationCapability, Implementation, JsonObject, ProtocolVersion, ServerResult,
    TASKS_EXTENSION_ID,
};
use rmcp::service::{ClientInitializeError, Peer, RunningService};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, RoleClient};

use super::call::{Bounds, call};
use super::failure::{CallFailure, chain, in_transport};
use super::mcp::unavailable;
use super::remotes::unreachable;
use super::{BoxTransport, Unreachable};
use crate::plan::Settings;
use crate::registration::{Registration, TransportKind};

/// An open connection to one server.
#[derive(Clone)]
pub struct Connection {
    service: Arc<RunningService<RoleClient, Client>>,
    pub(super) registration: Registration,
    pub(super) settings: Arc<Settings>,
    /// The server refused this connection's token; another comes with another connection.
    was_denied: Arc<AtomicBool>,
    /// It was opened for whoever has it, with the token of this moment.
    pub(super) is_fresh: bool,
}

impl Connection {
    /// Greets the server.
    pub(super) async fn open(
        transport: BoxTransport,
        registration: &Registration,
        settings: &Arc<Settings>,
    ) -> Result<Self, Unreachable> {
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
        let service = Client(registration.transport)
            .serve_with_lifecycle(transport, lifecycle)
            .await
            .map_err(|error| handshake_failed(&error))?;
        Ok(Self {
            service: Arc::new(service),
            registration: registration.clone(),
            settings: settings.clone(),
            was_denied: Arc::default(),
            is_fresh: false,
        })
    }

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

    /// Whether a call for `registration` as it is now may go over this connection.
    pub(super) fn serves(&self, registration: &Registration) -> bool {
        self.registration == *registration
            && !self.peer().is_transport_closed()
            && !self.was_denied.load(Ordering::Relaxed)
    }

    /// Whether both are one connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.service, &other.service)
    }

    /// Ends the session. A call that is still under way keeps it until that ends.
    pub(super) async fn close(self) {
        if let Some(service) = Arc::into_inner(self.service) {
            let _ = service.cancel().await;
        }
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

fn handshake_failed(error: &ClientInitializeError) -> Unreachable {
    if let ClientInitializeError::TransportError { error, .. } = error {
        match in_transport(error.error.as_ref()) {
            // rmcp's own words say more.
            CallFailure::Rpc(_) | CallFailure::TooLarge => {}
            failure => return unavailable(failure),
        }
    }
    unreachable(chain(error))
}
