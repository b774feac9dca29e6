//! What a server serves on.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use crate::access::{AccessPolicy, AllowedHost, is_name};

/// How MCP messages travel. Contract decision 27.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Transport {
    /// Standard input and output, for a server that its client starts.
    #[default]
    Stdio,
    /// Streamable HTTP at `/mcp`.
    StreamableHttp,
    /// The deprecated HTTP+SSE pair at `/sse` and `/messages/`, which deployed brains still use.
    Sse,
}

impl Transport {
    /// The name that `MCP_TRANSPORT` knows it by.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Transport {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        match name {
            "stdio" => Ok(Self::Stdio),
            "streamable-http" | "streamable_http" | "http" => Ok(Self::StreamableHttp),
            "sse" => Ok(Self::Sse),
            _ => Err(ConfigError::Transport(name.to_owned())),
        }
    }
}

/// Which transport to serve on, and where. Contract decision 27.
///
/// | Variable | Meaning | Default |
/// |---|---|---|
/// | `MCP_TRANSPORT` | `stdio`, `streamable-http` (also `streamable_http`, `http`) or `sse` | `stdio` |
/// | `MCP_HOST` | address or name to listen on | `127.0.0.1` |
/// | `MCP_PORT` | port to listen on; 0 takes a free one | `9100` |
/// | `MCP_ALLOWED_HOSTS` | further hosts that requests may name, separated by commas | none |
///
/// A variable that is empty counts as unset.
///
/// # Allowed hosts
///
/// A request is answered only if its `Host` header (and its `Origin` header, where a browser
/// sends one) names an allowed host: `localhost`, `127.0.0.1`, `[::1]`, the host that the server
/// listens on, and what `MCP_ALLOWED_HOSTS` adds. This is what keeps web pages from driving the
/// robot; it does not keep out other programs. An entry without a port allows every port.
///
/// Listening on `0.0.0.0` or `[::]` allows no further host by itself: name the hosts under which
/// clients reach the server. The entry `*` turns both checks off, and is logged as a warning.
///
/// # Examples
///
/// ```
/// use rvc_mcp::{ServeConfig, Transport};
///
/// let config = ServeConfig::from_vars(|name| match name {
///     "MCP_TRANSPORT" => Some("sse".into()),
///     "MCP_PORT" => Some("9200".into()),
///     _ => None,
/// })?
/// .allow_host("robot.local")?;
///
/// assert_eq!(config.transport(), Transport::Sse);
/// # Ok::<(), rvc_mcp::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeConfig {
    transport: Transport,
    host: Host,
    port: u16,
    allowed: Vec<AllowedHost>,
    any_host: bool,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            transport: Transport::default(),
            host: Host("127.0.0.1".to_owned()),
            port: 9100,
            allowed: Vec::new(),
            any_host: false,
        }
    }
}

impl ServeConfig {
    /// Reads the process's environment.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the first variable that holds something else than it should.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_vars(|name| std::env::var_os(name))
    }

    /// Reads variables through a function, which answers `None` for one that is not set.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn from_vars(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let var = |name: &'static str| match lookup(name).map(OsString::into_string) {
            Some(Ok(value)) => Ok(Some(value.trim().to_owned()).filter(|value| !value.is_empty())),
            Some(Err(_)) => Err(ConfigError::NotUnicode(name)),
            None => Ok(None),
        };
        let mut config = Self::default();
        if let Some(name) = var("MCP_TRANSPORT")? {
            config = config.with_transport(name.parse()?);
        }
        if let Some(host) = var("MCP_HOST")? {
            config = config.with_host(&host)?;
        }
        if let Some(port) = var("MCP_PORT")? {
            config = config.with_port(port.parse().map_err(|_| ConfigError::Port(port))?);
        }
        for host in var("MCP_ALLOWED_HOSTS")?
            .iter()
            .flat_map(|list| list.split(','))
        {
            config = config.allow_host(host.trim())?;
        }
        Ok(config)
    }

    /// Serves on this transport.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Listens on this address or name.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Host`] when it is neither.
    pub fn with_host(mut self, host: &str) -> Result<Self, ConfigError> {
        self.host = Host::parse(host).ok_or_else(|| ConfigError::Host(host.to_owned()))?;
        Ok(self)
    }

    /// Listens on this port; 0 takes a free one.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Answers requests that name this host: `host`, `host:port`, or `*` for any.
    ///
    /// # Errors
    ///
    /// [`ConfigError::AllowedHost`] when it is none of these.
    pub fn allow_host(mut self, host: &str) -> Result<Self, ConfigError> {
        if host == "*" {
            self.any_host = true;
        } else {
            let host = host
                .parse()
                .map_err(|_| ConfigError::AllowedHost(host.to_owned()))?;
            self.allowed.push(host);
        }
        Ok(self)
    }

    /// The transport to serve on.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// What to bind, in the form that name resolution takes.
    pub(crate) fn address(&self) -> (&str, u16) {
        (&self.host.0, self.port)
    }

    /// Which requests are answered.
    pub(crate) fn access(&self) -> AccessPolicy {
        if self.any_host {
            return AccessPolicy::Any;
        }
        let mut hosts: Vec<_> = ["localhost", "127.0.0.1", "::1"]
            .map(AllowedHost::any_port)
            .into();
        if !self.host.is_unspecified() {
            hosts.push(AllowedHost::any_port(&self.host.0));
        }
        hosts.extend(self.allowed.iter().cloned());
        AccessPolicy::Hosts(hosts)
    }

    /// What an operator should hear about this configuration.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.transport == Transport::Stdio {
            return warnings;
        }
        if !self.host.is_loopback() {
            warnings.push(
                "listening beyond this machine: MCP has no password here, \
                 so whoever reaches the port can call the tools",
            );
        }
        if self.any_host {
            warnings.push(
                "MCP_ALLOWED_HOSTS is *: any web page that a user of this network visits \
                 can call the tools",
            );
        } else if self.host.is_unspecified() && self.allowed.is_empty() {
            warnings.push(
                "only requests that name localhost are answered: \
                 name the hosts that clients use in MCP_ALLOWED_HOSTS",
            );
        }
        warnings
    }
}

/// An address or a name, IPv6 addresses without brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Host(String);

impl Host {
    fn parse(text: &str) -> Option<Self> {
        let bracketed = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        let is_valid = match bracketed {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => text.parse::<Ipv6Addr>().is_ok() || is_name(text),
        };
        is_valid.then(|| Self(bracketed.unwrap_or(text).to_owned()))
    }

    fn ip(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }

    fn is_unspecified(&self) -> bool {
        self.ip().is_some_and(|ip| ip.is_unspecified())
    }

    fn is_loopback(&self) -> bool {
        self.0.eq_ignore_ascii_case("localhost") || self.ip().is_some_and(|ip| ip.is_loopback())
    }
}

/// Why a server's configuration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A variable is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotUnicode(&'static str),

    /// No transport has this name.
    #[error("MCP_TRANSPORT must be stdio, streamable-http or sse, not {0:?}")]
    Transport(String),

    /// Neither an address nor a host name.
    #[error("MCP_HOST must be an address or a host name, not {0:?}")]
    Host(String),

    /// No port number.
    #[error("MCP_PORT must be a number from 0 to 65535, not {0:?}")]
    Port(String),

    /// An entry of the allowed hosts is none.
    #[error("MCP_ALLOWED_HOSTS must list host, host:port or *, separated by commas, not {0:?}")]
    AllowedHost(String),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use http::{HeaderMap, Uri, header};

    use super::*;

    fn read(vars: &[(&str, &str)]) -> Result<ServeConfig, ConfigError> {
        let vars: BTreeMap<_, _> = vars.iter().copied().collect();
        ServeConfig::from_vars(|name| vars.get(name).map(Into::into))
    }

    fn answers(config: &ServeConfig, host: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        config
            .access()
            .check(&Uri::from_static("/"), &headers)
            .is_ok()
    }

    #[test]
    fn an_empty_environment_means_stdio_and_loopback_port_9100() {
        let config = read(&[]).unwrap();

        assert_eq!(config, ServeConfig::default());
        assert_eq!(config.transport(), Transport::Stdio);
        assert_eq!(config.address(), ("127.0.0.1", 9100));
    }

    #[test]
    fn every_name_of_a_transport_is_known() {
        for (name, transport) in [
            ("stdio", Transport::Stdio),
            ("streamable-http", Transport::StreamableHttp),
            ("streamable_http", Transport::StreamableHttp),
            ("http", Transport::StreamableHttp),
            ("sse", Transport::Sse),
        ] {
            let config = read(&[("MCP_TRANSPORT", name)]).unwrap();
            assert_eq!(config.transport(), transport);
            assert_eq!(transport.as_str().parse(), Ok(transport));
        }
    }

    #[test]
    fn every_variable_is_read() {
        let config = read(&[
            ("MCP_TRANSPORT", " sse\n"),
            ("MCP_HOST", "[::1]"),
            ("MCP_PORT", "9200"),
            ("MCP_ALLOWED_HOSTS", "robot.local, 10.0.0.7:9200"),
        ])
        .unwrap();

        assert_eq!(config.transport(), Transport::Sse);
        assert_eq!(config.address(), ("::1", 9200));
        assert!(answers(&config, "robot.local:1"));
        assert!(answers(&config, "10.0.0.7:9200"));
        assert!(!answers(&config, "10.0.0.7:9201"));
    }

    #[test]
    fn empty_variables_count_as_unset() {
        let vars = ["MCP_TRANSPORT", "MCP_HOST", "MCP_PORT", "MCP_ALLOWED_HOSTS"];
        let vars = vars.map(|name| (name, " "));
        assert_eq!(read(&vars), Ok(ServeConfig::default()));
    }

    #[test]
    fn a_bad_value_is_an_error_that_names_its_variable() {
        for (name, value) in [
            ("MCP_TRANSPORT", "SSE"),
            ("MCP_TRANSPORT", "websocket"),
            ("MCP_HOST", "http://127.0.0.1"),
            ("MCP_HOST", "127.0.0.1:9100"),
            ("MCP_HOST", "a b"),
            ("MCP_HOST", "[robot]"),
            ("MCP_PORT", "65536"),
            ("MCP_PORT", "-1"),
            ("MCP_PORT", "http"),
            ("MCP_ALLOWED_HOSTS", "robot.local,,"),
            ("MCP_ALLOWED_HOSTS", "http://robot.local"),
            ("MCP_ALLOWED_HOSTS", "*.local"),
        ] {
            let message = read(&[(name, value)]).unwrap_err().to_string();
            assert!(message.starts_with(name), "{name}={value}: {message}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_no_text_is_an_error() {
        use std::os::unix::ffi::OsStringExt;

        let config = ServeConfig::from_vars(|_| Some(OsString::from_vec(vec![0xff])));
        assert_eq!(config, Err(ConfigError::NotUnicode("MCP_TRANSPORT")));
    }

    #[test]
    fn loopback_names_and_the_own_address_are_always_allowed() {
        let config = ServeConfig::default().with_host("10.0.0.7").unwrap();
        for host in ["localhost", "127.0.0.1:9100", "[::1]:9100", "10.0.0.7:9100"] {
            assert!(answers(&config, host), "{host}");
        }
        assert!(!answers(&config, "10.0.0.8"));
    }

    #[test]
    fn listening_everywhere_opens_nothing_silently() {
        let config = ServeConfig::default()
            .with_transport(Transport::Sse)
            .with_host("0.0.0.0")
            .unwrap();

        assert!(!answers(&config, "0.0.0.0:9100"));
        assert!(!answers(&config, "10.0.0.7:9100"));
        assert_eq!(config.warnings().len(), 2);
    }

    #[test]
    fn any_host_is_allowed_only_by_express_word_and_with_a_warning() {
        let config = ServeConfig::default()
            .with_transport(Transport::Sse)
            .allow_host("*")
            .unwrap();

        assert!(answers(&config, "anything.example"));
        assert_eq!(config.warnings().len(), 1);
        let loopback = ServeConfig::default().with_transport(Transport::Sse);
        assert!(loopback.warnings().is_empty());
    }
}
