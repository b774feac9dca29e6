//! Which `Host` and `Origin` a request may carry.
//!
//! A web page anywhere can make a browser send requests to `127.0.0.1`, and with a name that it
//! rebinds it can read the answers too. The two headers give it away. rmcp's streamable HTTP
//! server checks them for itself; its functions are private, so the HTTP+SSE transport decides
//! here by the same rules. A test holds both against each other.

use std::fmt;
use std::str::FromStr;

use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri, header};

/// A host name or address that requests may name, with or without a port.
///
/// Without a port it allows every port of that host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedHost {
    /// Lower case, IPv6 addresses without brackets.
    host: String,
    port: Option<u16>,
}

/// Text that is neither `host` nor `host:port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostError;

impl AllowedHost {
    /// The host by itself: every port of it.
    pub(crate) fn any_port(host: &str) -> Self {
        Self {
            host: normal(host),
            port: None,
        }
    }

    fn allows(&self, authority: &Authority) -> bool {
        self.host == normal(authority.host())
            && self
                .port
                .is_none_or(|port| authority.port_u16() == Some(port))
    }
}

impl FromStr for AllowedHost {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        if text.parse::<std::net::Ipv6Addr>().is_ok() {
            return Ok(Self::any_port(text));
        }
        let authority: Authority = text.parse().map_err(|_| HostError)?;
        // An authority may hold a user name, and a port that is no number.
        let host = authority.host();
        let rest = text.strip_prefix(host).ok_or(HostError)?;
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(digits.parse().map_err(|_| HostError)?),
            None if rest.is_empty() => None,
            None => return Err(HostError),
        };
        // An authority takes `*` and other characters that no host has.
        if !host.starts_with('[') && !is_name(host) {
            return Err(HostError);
        }
        Ok(Self {
            host: normal(host),
            port,
        })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.host),
            (true, None) => write!(f, "[{}]", self.host),
            (false, Some(port)) => write!(f, "{}:{port}", self.host),
            (false, None) => f.write_str(&self.host),
        }
    }
}

/// What may be named in `Host` and `Origin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessPolicy {
    /// Anything. Only ever by the operator's express word.
    Any,
    /// These hosts, and web pages that were served by them.
    Hosts(Vec<AllowedHost>),
}

impl AccessPolicy {
    /// Decides over a request's head.
    ///
    /// # Errors
    ///
    /// [`Refusal`], with the status to answer.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let authority = match headers.get(header::HOST) {
            Some(host) => host
                .to_str()
                .ok()
                .and_then(|host| host.parse().ok())
                .ok_or(Refusal::MalformedHost)?,
            None => uri.authority().cloned().ok_or(Refusal::MissingHost)?,
        };
        let Self::Hosts(hosts) = self else {
            return Ok(());
        };
        if !hosts.iter().any(|host| host.allows(&authority)) {
            return Err(Refusal::ForeignHost(authority.to_string()));
        }
        // Only browsers send an Origin.
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Ok(());
        };
        let origin = origin.to_str().map_err(|_| Refusal::MalformedOrigin)?;
        if origin_is_of(hosts, origin) {
            Ok(())
        } else {
            Err(Refusal::ForeignOrigin(origin.to_owned()))
        }
    }

    /// The same policy in the words of rmcp's `allowed_hosts`; empty allows any.
    pub(crate) fn hosts(&self) -> Vec<String> {
        match self {
            Self::Any => Vec::new(),
            Self::Hosts(hosts) => hosts.iter().map(AllowedHost::to_string).collect(),
        }
    }

    /// The same policy in the words of rmcp's `allowed_origins`.
    pub(crate) fn origins(&self) -> Vec<String> {
        self.hosts()
            .iter()
            .flat_map(|host| ["http", "https"].map(|scheme| format!("{scheme}://{host}")))
            .map(|origin| match origin.parse::<Uri>() {
                Ok(uri) if uri.port().is_none() => format!("{origin}:*"),
                _ => origin,
            })
            .collect()
    }
}

/// Why a request's head was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the Host header is missing")]
    MissingHost,
    #[error("the Host header is malformed")]
    MalformedHost,
    #[error("the Host header names {0:?}, which MCP_ALLOWED_HOSTS does not allow")]
    ForeignHost(String),
    #[error("the Origin header is malformed")]
    MalformedOrigin,
    #[error("the Origin header names {0:?}, which is none of the allowed hosts")]
    ForeignOrigin(String),
}

impl Refusal {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::MissingHost | Self::MalformedHost => StatusCode::BAD_REQUEST,
            Self::ForeignHost(_) | Self::MalformedOrigin | Self::ForeignOrigin(_) => {
                StatusCode::FORBIDDEN
            }
        }
    }
}

/// Whether a web page of this origin was served by one of the hosts.
fn origin_is_of(hosts: &[AllowedHost], origin: &str) -> bool {
    let Ok(uri) = origin.trim().parse::<Uri>() else {
        return false;
    };
    let default_port = match uri.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return false,
    };
    let Some(authority) = uri.authority() else {
        return false;
    };
    // An origin leaves out the port that its scheme implies.
    let port = authority.port_u16().unwrap_or(default_port);
    hosts.iter().any(|allowed| {
        allowed.host == normal(authority.host()) && allowed.port.is_none_or(|want| want == port)
    })
}

/// Host names; IPv4 addresses are written with the same characters.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// Host names compare without regard to case, IPv6 addresses without their brackets.
fn normal(host: &str) -> String {
    host.trim_matches(['[', ']']).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use bytes::Bytes;
    use http::Request;
    use http_body_util::Empty;
    use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
    use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

    use super::*;

    struct Bare;
    impl rmcp::ServerHandler for Bare {}

    fn policy(hosts: &[&str]) -> AccessPolicy {
        AccessPolicy::Hosts(hosts.iter().map(|host| host.parse().unwrap()).collect())
    }

    fn head(host: Option<&str>, origin: Option<&str>) -> Request<Empty<Bytes>> {
        let mut request = Request::put("/").body(Empty::new()).unwrap();
        if let Some(host) = host {
            request
                .headers_mut()
                .insert(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            request
                .headers_mut()
                .insert(header::ORIGIN, origin.parse().unwrap());
        }
        request
    }

    /// rmcp checks the head before the method, and knows no PUT.
    async fn verdict_of_rmcp(
        policy: &AccessPolicy,
        request: Request<Empty<Bytes>>,
    ) -> Option<StatusCode> {
        let mut config = StreamableHttpServerConfig::default().with_allowed_hosts(policy.hosts());
        if *policy != AccessPolicy::Any {
            config = config
                .with_allowed_origins(policy.origins())
                .enforce_origin_validation();
        }
        let service = StreamableHttpService::new(
            || Ok(Bare),
            Arc::new(LocalSessionManager::default()),
            config,
        );
        let status = service.handle(request).await.status();
        (status != StatusCode::METHOD_NOT_ALLOWED).then_some(status)
    }

    #[tokio::test]
    async fn every_verdict_is_the_one_that_rmcp_gives() {
        let policies = [
            AccessPolicy::Any,
            policy(&["localhost", "127.0.0.1", "::1"]),
            policy(&["robot.example:9100", "[fe80::1]:80", "Other.Example"]),
        ];
        let hosts = [
            None,
            Some("localhost"),
            Some("LOCALHOST:9100"),
            Some("127.0.0.1:1"),
            Some("[::1]:9100"),
            Some("[::1]"),
            Some("evil.example"),
            Some("localhost.evil.example"),
            Some("robot.example"),
            Some("robot.example:9100"),
            Some("robot.example:9101"),
            Some("other.example:5"),
            Some("[fe80::1]:80"),
            Some("[fe80::1]:81"),
            Some("user@localhost"),
            Some(""),
            Some("a b"),
            Some("::1"),
        ];
        let origins = [
            None,
            Some("http://localhost"),
            Some("http://localhost:6274"),
            Some("https://LOCALHOST"),
            Some("http://[::1]:3000"),
            Some("http://evil.example"),
            Some("http://robot.example:9100"),
            Some("https://robot.example"),
            Some("https://other.example"),
            Some("http://[fe80::1]"),
            Some("http://[fe80::1]:80"),
            Some("https://[fe80::1]"),
            Some("ftp://localhost"),
            Some("null"),
            Some("localhost"),
            Some(""),
            Some("http://"),
        ];
        let mut passed = 0;
        for policy in &policies {
            for host in hosts {
                for origin in origins {
                    let request = head(host, origin);
                    let ours = policy
                        .check(request.uri(), request.headers())
                        .err()
                        .map(|refusal| refusal.status());
                    passed += usize::from(ours.is_none());
                    let theirs = verdict_of_rmcp(policy, request).await;
                    assert_eq!(ours, theirs, "{policy:?} {host:?} {origin:?}");
                }
            }
        }
        assert!(passed > 100, "the table hardly tests what is allowed");
    }

    #[test]
    fn headers_that_are_no_text_are_refused() {
        let policy = policy(&["localhost"]);
        for (name, status) in [
            (header::HOST, StatusCode::BAD_REQUEST),
            (header::ORIGIN, StatusCode::FORBIDDEN),
        ] {
            let mut request = head(Some("localhost"), None);
            let bytes = http::HeaderValue::from_bytes(b"\xff").unwrap();
            request.headers_mut().insert(name, bytes);
            let refusal = policy.check(request.uri(), request.headers()).unwrap_err();
            assert_eq!(refusal.status(), status);
        }
    }

    #[test]
    fn the_authority_of_the_target_stands_in_for_a_missing_host_header() {
        let uri = "http://localhost:9100/sse".parse().unwrap();
        assert_eq!(
            policy(&["localhost"]).check(&uri, &HeaderMap::new()),
            Ok(())
        );
    }

    #[test]
    fn allowed_hosts_are_read_with_and_without_a_port() {
        for (text, normal) in [
            ("Robot.Local", "robot.local"),
            ("robot.local:9100", "robot.local:9100"),
            ("::1", "[::1]"),
            ("[::1]", "[::1]"),
            ("[::1]:80", "[::1]:80"),
            ("10.0.0.7", "10.0.0.7"),
        ] {
            assert_eq!(text.parse::<AllowedHost>().unwrap().to_string(), normal);
        }
    }

    #[test]
    fn text_that_is_no_host_is_refused() {
        for text in [
            "",
            " ",
            "a b",
            "http://robot.local",
            "robot.local/",
            "robot.local:",
            "robot.local:x",
            "robot.local:99999",
            "user@robot.local",
            ":80",
            "*",
            "*.robot.local",
            "robot.local:*",
        ] {
            assert_eq!(text.parse::<AllowedHost>(), Err(HostError), "{text:?}");
        }
    }
}
