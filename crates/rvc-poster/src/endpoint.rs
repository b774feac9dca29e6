use std::fmt;

use http::HeaderValue;
use http::uri::PathAndQuery;
use rvc_sign::Secret;
use url::{Host, Position, Url};

/// Where events go, and the secret that signs them (contract decision 16).
///
/// `Debug` and `Display` show no query and no secret.
#[derive(Clone)]
pub struct Endpoint {
    url: Url,
    host: Host<String>,
    port: u16,
    host_header: HeaderValue,
    path: PathAndQuery,
    secret: Secret,
}

impl Endpoint {
    /// Checks a URL such as `http://127.0.0.1:8000/api/agent/events`.
    ///
    /// # Errors
    ///
    /// [`EndpointError`] if it is none, is neither http nor https, has no host, or carries a user
    /// name or a password.
    pub fn new(url: &str, secret: Secret) -> Result<Self, EndpointError> {
        let url = Url::parse(url).map_err(|error| EndpointError::NotAUrl(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EndpointError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::Credentials);
        }
        let host = url.host().ok_or(EndpointError::NoHost)?.to_owned();
        let port = url.port_or_known_default().ok_or(EndpointError::NoHost)?;
        let not_a_request = |error: http::Error| EndpointError::NotAUrl(error.to_string());
        let host_header = HeaderValue::try_from(&url[Position::BeforeHost..Position::AfterPort])
            .map_err(|error| not_a_request(error.into()))?;
        let path = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery])
            .map_err(|error| not_a_request(error.into()))?;
        Ok(Self {
            url,
            host,
            port,
            host_header,
            path,
            secret,
        })
    }

    pub(crate) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(crate) fn host(&self) -> &Host<String> {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }

    pub(crate) fn path(&self) -> &PathAndQuery {
        &self.path
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }
}

/// The URL without its query, which may hold a token.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url[..Position::AfterPath])
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &format_args!("{self}"))
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}

/// Why a URL is no endpoint. It never shows the URL, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// It cannot be read as a URL.
    #[error("the callback URL is no URL: {0}")]
    NotAUrl(String),

    /// The scheme is something else.
    #[error("the callback URL has the scheme {0:?}, only http and https are possible")]
    Scheme(String),

    /// No host is named.
    #[error("the callback URL has no host")]
    NoHost,

    /// A user name or a password, which would end up in logs.
    #[error("the callback URL carries a user name or password; events are signed instead")]
    Credentials,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn endpoint(url: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::new(url, Secret::new(b"hunter2").unwrap())
    }

    #[test]
    fn a_url_becomes_host_port_and_request_target() {
        for (url, host, port, header, path) in [
            (
                "http://127.0.0.1:8000/api/agent/events",
                "127.0.0.1",
                8000,
                "127.0.0.1:8000",
                "/api/agent/events",
            ),
            ("http://localhost", "localhost", 80, "localhost", "/"),
            (
                "https://brain.local/e?x=%20#frag",
                "brain.local",
                443,
                "brain.local",
                "/e?x=%20",
            ),
            ("http://[::1]:9/e", "[::1]", 9, "[::1]:9", "/e"),
            (
                "HTTP://BR\u{c4}IN.local:80/\u{e4}",
                "xn--brin-moa.local",
                80,
                "xn--brin-moa.local",
                "/%C3%A4",
            ),
        ] {
            let endpoint = endpoint(url).unwrap();
            assert_eq!(endpoint.host().to_string(), host, "{url}");
            assert_eq!(endpoint.port(), port, "{url}");
            assert_eq!(endpoint.host_header(), header, "{url}");
            assert_eq!(endpoint.path(), path, "{url}");
            assert_eq!(endpoint.is_https(), url.starts_with("https"), "{url}");
        }
    }

    #[test]
    fn a_url_that_could_not_work_or_carries_credentials_is_refused() {
        for (url, error) in [
            ("ftp://h/", EndpointError::Scheme("ftp".into())),
            (
                "localhost:8000/e",
                EndpointError::Scheme("localhost".into()),
            ),
            ("http://user@h/", EndpointError::Credentials),
            ("http://:hunter2@h/", EndpointError::Credentials),
            ("http://user:hunter2@h/", EndpointError::Credentials),
        ] {
            assert_eq!(endpoint(url).unwrap_err(), error, "{url}");
        }
        for url in [
            "",
            "/events",
            "http://",
            "http:///",
            "http://h:99999/",
            "http://a b/",
        ] {
            let error = endpoint(url).unwrap_err();
            assert!(
                matches!(error, EndpointError::NotAUrl(_)),
                "{url} {error:?}"
            );
        }
    }

    #[test]
    fn no_query_password_or_secret_is_shown() {
        let shown = endpoint("http://h/e?token=hunter3").unwrap();
        assert_eq!(shown.to_string(), "http://h/e");
        assert!(!format!("{shown:?}").contains("hunter"));

        let error = endpoint("http://user:hunter3@h/").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter"));
    }
}
