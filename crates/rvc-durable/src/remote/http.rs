use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio_rustls::rustls;

use super::{BoxTransport, DialError, Dialer};
use crate::registration::{Registration, TransportKind};

/// A bearer token. It is given at call time and kept nowhere.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Takes a token.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Where tokens come from: the host, whenever a connection is opened.
///
/// # Cancel safety
///
/// Dropping the future gives the attempt up.
pub trait TokenSource: Send + Sync + 'static {
    /// The token for a server; `None` where it needs none.
    fn token<'a>(
        &'a self,
        registration: &'a Registration,
    ) -> BoxFuture<'a, Result<Option<Token>, DialError>>;
}

/// No server needs a token.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTokens;

impl TokenSource for NoTokens {
    fn token<'a>(&'a self, _: &'a Registration) -> BoxFuture<'a, Result<Option<Token>, DialError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Dials streamable HTTP, with TLS by rustls.
///
/// Redirects are not followed: a start could be posted twice, or to somebody else. Proxies of
/// the environment are not used.
#[derive(Clone)]
pub struct HttpDialer {
    client: reqwest::Client,
    tokens: Arc<dyn TokenSource>,
    max_response_bytes: usize,
    calls_per_server: usize,
}

impl HttpDialer {
    /// A dialer that reads answers of up to `max_result_bytes`, and does up to
    /// `calls_per_server` calls at once.
    ///
    /// # Errors
    ///
    /// When the system's root certificates cannot be used.
    pub fn new(max_result_bytes: usize, calls_per_server: usize) -> Result<Self, DialError> {
        let refused = |reason: String| DialError { reason };
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|error| refused(error.to_string()))?;
        Ok(Self {
            client,
            tokens: Arc::new(NoTokens),
            // Room for what JSON-RPC puts around a result.
            max_response_bytes: max_result_bytes.saturating_add(64 << 10),
            calls_per_server,
        })
    }

    /// Takes tokens from `tokens`.
    #[must_use]
    pub fn tokens(mut self, tokens: Arc<dyn TokenSource>) -> Self {
        self.tokens = tokens;
        self
    }
}

impl Dialer for HttpDialer {
    fn dial<'a>(
        &'a self,
        registration: &'a Registration,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>> {
        Box::pin(async move {
            if registration.transport != TransportKind::StreamableHttp {
                let transport = registration.transport.as_str();
                return Err(DialError {
                    reason: format!("this program does not speak the transport {transport}"),
                });
            }
            let mut config =
                StreamableHttpClientTransportConfig::with_uri(registration.endpoint.as_str())
                    .reinit_on_expired_session(false)
                    .max_concurrent_requests(self.calls_per_server)
                    .max_json_response_size(self.max_response_bytes)
                    .max_sse_event_size(self.max_response_bytes);
            if let Some(Token(token)) = self.tokens.token(registration).await? {
                config = config.auth_header(token);
            }
            let transport = StreamableHttpClientTransport::with_client(self.client.clone(), config);
            Ok(BoxTransport::new(transport))
        })
    }
}
