//! A remote server as the host knows it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::name::{OwnerId, RegistrationId};
use crate::phase::UnknownWord;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TransportKind {
    /// Streamable HTTP.
    #[default]
    StreamableHttp,
    /// The deprecated HTTP+SSE pair, which deployed contract servers speak.
    Sse,
}

impl TransportKind {
    /// The transport as it is stored and given on a command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
        }
    }
}

impl FromStr for TransportKind {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "streamable-http" => Ok(Self::StreamableHttp),
            "sse" => Ok(Self::Sse),
            _ => Err(UnknownWord {
                what: "transport",
                text: text.to_owned(),
            }),
        }
    }
}

/// Why a text is no endpoint of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The text is no URL.
    #[error("the endpoint is no URL")]
    Malformed(#[source] url::ParseError),
    /// Only http and https are spoken.
    #[error("an endpoint is http or https, not {scheme:?}")]
    Scheme {
        /// What it was.
        scheme: String,
    },
    /// The URL names no host.
    #[error("the endpoint names no host")]
    NoHost,
    /// The URL carries a user name, a password, or a secret in its query or fragment.
    #[error("the endpoint carries credentials ({part}); a token is given at call time")]
    Credentials {
        /// Where.
        part: String,
    },
}

/// The URL of a server: http or https, with a host, without credentials.
///
/// Refused are a user name or password, a fragment, and a query parameter whose name says that
/// it is a secret. What is stored here is read by everyone who can read the database.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint(Url);

impl Endpoint {
    /// The URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// Whether what is sent there can be read on its way: plain http that leaves the machine.
    pub(crate) fn is_in_the_open(&self) -> bool {
        let is_loopback = match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
            None => false,
        };
        self.0.scheme() == "http" && !is_loopback
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let url = Url::parse(text).map_err(EndpointError::Malformed)?;
        let credentials = |part: &str| EndpointError::Credentials { part: part.into() };
        if !matches!(url.scheme(), "http" | "https") {
            let scheme = url.scheme().to_owned();
            return Err(EndpointError::Scheme { scheme });
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(EndpointError::NoHost);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(credentials("user name or password"));
        }
        if url.fragment().is_some() {
            return Err(credentials("fragment"));
        }
        for (name, _) in url.query_pairs() {
            let folded = name.to_ascii_lowercase().replace(['-', '_'], "");
            if SECRET_PARAMETERS.iter().any(|word| folded.contains(word)) {
                return Err(credentials(&format!("query parameter {name:?}")));
            }
        }
        Ok(Self(url))
    }
}

impl TryFrom<String> for Endpoint {
    type Error = EndpointError;

    fn try_from(text: String) -> Result<Self, EndpointError> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.as_str().to_owned()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parts of a query parameter's name, folded, that give a secret away.
const SECRET_PARAMETERS: [&str; 9] = [
    "token",
    "apikey",
    "secret",
    "password",
    "passwd",
    "auth",
    "credential",
    "signature",
    "accesskey",
];

/// A remote server as the host knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Its id, which rows refer to.
    pub id: RegistrationId,
    /// Who may use it. Nobody else's actions do, and tokens are asked for on this owner's behalf.
    pub owner: OwnerId,
    /// Where it is.
    pub endpoint: Endpoint,
    /// How it is spoken to.
    pub transport: TransportKind,
    /// Whether it may be used at all.
    pub enabled: bool,
}

/// What a registration is good for at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may be used, at this endpoint.
    Granted(Registration),
    /// It may not; the reason completes "the registration …".
    Revoked {
        /// Why.
        reason: &'static str,
    },
}

impl Access {
    /// What `owner` may do with a registration that was found, or was not.
    #[must_use]
    pub fn decide(found: Option<Registration>, owner: &OwnerId) -> Self {
        match found {
            None => Self::Revoked {
                reason: "was deleted",
            },
            Some(it) if it.owner != *owner => Self::Revoked {
                reason: "is no longer the owner's",
            },
            Some(it) if !it.enabled => Self::Revoked {
                reason: "is disabled",
            },
            Some(it) => Self::Granted(it),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_a_url_are_refused() {
        for url in [
            "http://user@host/mcp",
            "https://user:pass@host/mcp",
            "https://host/mcp?access_token=x",
            "https://host/mcp?API-Key=x",
            "https://host/mcp?x=1&client_secret=y",
            "https://host/mcp#token",
        ] {
            let refused = url.parse::<Endpoint>();
            assert!(
                matches!(refused, Err(EndpointError::Credentials { .. })),
                "{url}"
            );
        }
        for url in ["http://127.0.0.1:9100/mcp", "https://host/mcp?robot=7"] {
            assert_eq!(
                url.parse::<Endpoint>().map(String::from),
                Ok(url.to_owned())
            );
        }
        for url in ["ftp://host/", "nonsense", "stdio:x"] {
            assert!(url.parse::<Endpoint>().is_err(), "{url}");
        }
    }

    #[test]
    fn plain_http_is_in_the_open_unless_it_stays_on_the_machine() {
        for (url, is_in_the_open) in [
            ("http://robot/mcp", true),
            ("http://localhost.example/mcp", true),
            ("http://10.0.0.7:9100/mcp", true),
            ("http://[fd00::1]/mcp", true),
            ("https://robot/mcp", false),
            ("http://LOCALHOST:9100/mcp", false),
            ("http://127.9.9.9/mcp", false),
            ("http://[::1]/mcp", false),
            ("http://[::ffff:127.0.0.1]/mcp", false),
        ] {
            let endpoint: Endpoint = url.parse().expect("a URL");
            assert_eq!(endpoint.is_in_the_open(), is_in_the_open, "{url}");
        }
    }

    #[test]
    fn access_is_revoked_by_deletion_disabling_and_change_of_owner() {
        let owner = OwnerId::local();
        let registration = Registration {
            id: "r".parse().expect("an id"),
            owner: owner.clone(),
            endpoint: "http://h/".parse().expect("a URL"),
            transport: TransportKind::StreamableHttp,
            enabled: true,
        };
        let mut disabled = registration.clone();
        disabled.enabled = false;
        let mut sold = registration.clone();
        sold.owner = "else".parse().expect("an id");

        assert_eq!(
            Access::decide(Some(registration.clone()), &owner),
            Access::Granted(registration)
        );
        for found in [None, Some(disabled), Some(sold)] {
            assert!(matches!(
                Access::decide(found, &owner),
                Access::Revoked { .. }
            ));
        }
    }
}
