use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rustls_pki_types::CertificateDer;
use rvc_mcp::{SseClient, SseClientConfig};

use super::capped::CappedClient;
use super::failure::in_transport;
use super::mcp::unavailable;
use super::requests::Requests;
use super::{BoxTransport, DialError, Dialer, NoTokens, Token, TokenSource};
use crate::name::RegistrationId;
use crate::registration::{Endpoint, Registration, TransportKind};
use crate::tls;

/// Dials streamable HTTP and HTTP+SSE, as the registration says, with TLS by rustls.
///
/// Redirects are not followed: a start could be posted twice, or to somebody else. Proxies of
/// the environment are not used. A token that goes over plain http to a host that is not loopback
/// is sent, and a WARN says so, once for each endpoint of a registration.
#[derive(Clone)]
pub struct HttpDialer {
    client: CappedClient,
    tokens: Arc<dyn TokenSource>,
    max_response_bytes: usize,
    calls_per_server: usize,
    /// The endpoints that were warned of.
    warned: Arc<Mutex<HashMap<RegistrationId, Endpoint>>>,
}

/// How a [`HttpDialer`] is built.
#[derive(Clone)]
#[must_use]
pub struct HttpDialerBuilder {
    tokens: Arc<dyn TokenSource>,
    max_result_bytes: usize,
    calls_per_server: usize,
    roots: Vec<CertificateDer<'static>>,
}

impl HttpDialer {
    /// A dialer with everything at its default.
    ///
    /// # Errors
    ///
    /// See [`HttpDialerBuilder::build`].
    pub fn new() -> Result<Self, DialError> {
        Self::builder().build()
    }

    /// Begins with everything at its default.
    pub fn builder() -> HttpDialerBuilder {
        HttpDialerBuilder {
            tokens: Arc::new(NoTokens),
            max_result_bytes: 16 << 20,
            calls_per_server: 16,
            roots: Vec::new(),
        }
    }
}

impl HttpDialerBuilder {
    /// Takes tokens from `tokens`.
    pub fn tokens(mut self, tokens: Arc<dyn TokenSource>) -> Self {
        self.tokens = tokens;
        self
    }

    /// The largest result that is read (16 MiB).
    pub fn max_result_bytes(mut self, bytes: usize) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Calls at once to one server over streamable HTTP (16). Fewer than the steps of a
    /// registration make some wait. Over HTTP+SSE a call holds no connection.
    pub fn calls_per_server(mut self, calls: usize) -> Self {
        self.calls_per_server = calls;
        self
    }

    /// Trusts the certificates of a PEM file too, besides the system's.
    ///
    /// # Errors
    ///
    /// When the text is no PEM, and when it holds no certificate.
    pub fn root_certificates(mut self, pem: &[u8]) -> Result<Self, DialError> {
        self.roots
            .extend(tls::certificates(pem).map_err(DialError::new)?);
        Ok(self)
    }

    /// Builds the dialer.
    ///
    /// # Errors
    ///
    /// When a root certificate cannot be used.
    pub fn build(self) -> Result<HttpDialer, DialError> {
        let tls = tls::client(self.roots).map_err(|error| refused(&error))?;
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|error| refused(&error))?;
        Ok(HttpDialer {
            client: CappedClient(client),
            tokens: self.tokens,
            // Room for what JSON-RPC puts around a result.
            max_response_bytes: self.max_result_bytes.saturating_add(64 << 10),
            calls_per_server: self.calls_per_server,
            warned: Arc::default(),
        })
    }
}

fn refused(error: &dyn std::fmt::Display) -> DialError {
    DialError::new(error.to_string())
}

impl HttpDialer {
    /// Once, not at each connection: a server that is often away would drown it.
    fn warn(&self, registration: &Registration) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoint = &registration.endpoint;
        let before = warned.insert(registration.id.clone(), endpoint.clone());
        if before.as_ref() != Some(endpoint) {
            tracing::warn!(
                registration_id = %registration.id,
                host = endpoint.url().host_str(),
                "the token goes over plain http, where others on the network can read it"
            );
        }
    }

    fn streamable(&self, registration: &Registration, token: Option<Token>) -> BoxTransport {
        let mut config =
            StreamableHttpClientTransportConfig::with_uri(registration.endpoint.as_str())
                .reinit_on_expired_session(false)
                .max_concurrent_requests(self.calls_per_server)
                .max_json_response_size(self.max_response_bytes)
                .max_sse_event_size(self.max_response_bytes);
        if let Some(token) = token {
            config = config.auth_header(token.secret());
        }
        let client = self.client.clone();
        BoxTransport::new(StreamableHttpClientTransport::with_client(client, config))
    }

    async fn sse(
        &self,
        registration: &Registration,
        token: Option<Token>,
    ) -> Result<BoxTransport, DialError> {
        let mut config = SseClientConfig::new(registration.endpoint.url().clone())
            .max_message_bytes(self.max_response_bytes);
        if let Some(token) = token {
            config = config.bearer_token(token.secret());
        }
        let client = SseClient::connect(Requests(self.client.0.clone()), config).await;
        client.map(BoxTransport::new).map_err(|error| {
            let failure = unavailable(in_transport(&error));
            DialError {
                reason: failure.reason,
                retry_after: failure.retry_after,
            }
        })
    }
}

impl Dialer for HttpDialer {
    fn token<'a>(
        &'a self,
        registration: &'a Registration,
    ) -> BoxFuture<'a, Result<Option<Token>, DialError>> {
        self.tokens.token(registration)
    }

    fn dial<'a>(
        &'a self,
        registration: &'a Registration,
        token: Option<Token>,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>> {
        Box::pin(async move {
            if token.is_some() && registration.endpoint.is_in_the_open() {
                self.warn(registration);
            }
            match registration.transport {
                TransportKind::StreamableHttp => Ok(self.streamable(registration, token)),
                TransportKind::Sse => self.sse(registration, token).await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use rvc_test::Logs;
    use tracing::Level;

    use super::*;
    use crate::name::OwnerId;

    async fn dial(dialer: &HttpDialer, endpoint: &str, token: Option<&str>) {
        let registration = Registration {
            id: "robot".parse().expect("an id"),
            owner: OwnerId::local(),
            endpoint: endpoint.parse().expect("a URL"),
            transport: TransportKind::StreamableHttp,
            enabled: true,
        };
        // Nothing is sent until it is used.
        let transport = dialer.dial(&registration, token.map(Token::new)).await;
        drop(transport.expect("a transport"));
    }

    #[tokio::test]
    async fn a_token_over_plain_http_to_another_machine_is_warned_of_once() {
        let logs = Logs::capture();
        let dialer = HttpDialer::new().expect("a dialer");
        for endpoint in ["https://robot/mcp", "http://127.0.0.1:9100/mcp"] {
            dial(&dialer, endpoint, Some("sesame")).await;
        }
        dial(&dialer, "http://robot/mcp", None).await;
        assert!(logs.at(Level::WARN).is_empty());

        for endpoint in [
            "http://robot/mcp",
            "http://robot/mcp",
            "http://10.0.0.7/mcp",
        ] {
            dial(&dialer.clone(), endpoint, Some("sesame")).await;
        }

        let warned = logs.at(Level::WARN);
        let hosts: Vec<_> = warned.iter().map(|line| line.field("host")).collect();
        assert_eq!(hosts, [Some("robot"), Some("10.0.0.7")]);
        assert_eq!(warned[0].field("registration_id"), Some("robot"));
        assert!(!format!("{:?}", logs.lines()).contains("sesame"));
    }
}
