//! How a poster gets a connection to its endpoint.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use url::Host;

use crate::tls;
use crate::{BuildError, Endpoint};

/// The port through which a poster gets connections to its endpoint.
///
/// A poster that is given none uses TCP, and TLS for an https URL. Tests give one that connects
/// to a peer in memory; a Unix socket is another use.
pub trait Connector: Send + Sync + 'static {
    /// Opens one connection, ready for HTTP/1.1.
    ///
    /// # Errors
    ///
    /// Any error means that the endpoint cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// The poster drops the future when the attempt's time is over; nothing may be left behind.
    fn connect(&self) -> Connecting<'_>;
}

/// A connection that is being opened.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send + 'a>>;

/// A two-way stream of bytes.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// TCP, and TLS where the URL says https.
pub(crate) struct NetConnector {
    host: Host<String>,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl NetConnector {
    pub(crate) fn new(endpoint: &Endpoint, extra_roots: &[Vec<u8>]) -> Result<Self, BuildError> {
        let host = endpoint.host().clone();
        let tls = if endpoint.is_https() {
            let config = tls::client_config(extra_roots)?;
            Some((
                TlsConnector::from(Arc::new(config)),
                tls::server_name(&host)?,
            ))
        } else {
            None
        };
        Ok(Self {
            host,
            port: endpoint.port(),
            tls,
        })
    }

    async fn open(&self) -> io::Result<Box<dyn Transport>> {
        let stream = connect_any(&self.addresses().await?).await?;
        // An event is one small write that waits for its answer.
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((tls, name)) => Ok(Box::new(tls.connect(name.clone(), stream).await?)),
        }
    }

    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let port = self.port;
        let ips: Vec<IpAddr> = match &self.host {
            Host::Ipv4(ip) => vec![(*ip).into()],
            Host::Ipv6(ip) => vec![(*ip).into()],
            // Whichever the endpoint listens on, and whatever the hosts file says.
            Host::Domain(name) if name == "localhost" => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            Host::Domain(name) => return Ok(lookup_host((name.as_str(), port)).await?.collect()),
        };
        Ok(ips
            .into_iter()
            .map(|ip| SocketAddr::new(ip, port))
            .collect())
    }
}

impl Connector for NetConnector {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(self.open())
    }
}

/// Connects to the first address that answers. The next one starts when one has failed, or has
/// been silent for a while.
async fn connect_any(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter().copied();
    let mut connecting = JoinSet::new();
    let mut first_error = None;
    loop {
        if let Some(address) = waiting.next() {
            connecting.spawn(TcpStream::connect(address));
        }
        let result = tokio::select! {
            result = connecting.join_next() => result,
            () = sleep(HEAD_START), if waiting.len() > 0 => continue,
        };
        match result {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => {
                first_error.get_or_insert(error);
            }
            Some(Err(error)) => {
                first_error.get_or_insert(io::Error::other(error));
            }
            None => {
                let no_address = || io::Error::new(io::ErrorKind::NotFound, "no address");
                return Err(first_error.unwrap_or_else(no_address));
            }
        }
    }
}

/// How long an address may be silent before the next one is tried beside it (RFC 8305).
const HEAD_START: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rvc_sign::Secret;
    use tokio::net::TcpListener;

    use super::*;

    /// An address of this machine that nothing listens on.
    async fn closed() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    }

    #[tokio::test]
    async fn an_address_that_refuses_gives_way_to_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();

        let stream = connect_any(&[closed().await, open]).await.unwrap();

        assert_eq!(stream.peer_addr().unwrap(), open);
    }

    #[tokio::test]
    async fn without_an_open_address_the_first_error_is_reported() {
        let error = connect_any(&[closed().await, closed().await])
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);

        let error = connect_any(&[]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn localhost_is_tried_on_both_families() {
        let endpoint = Endpoint::new("http://LocalHost:8000/", Secret::new(b"s").unwrap()).unwrap();
        let connector = NetConnector::new(&endpoint, &[]).unwrap();
        assert_eq!(
            connector.addresses().await.unwrap(),
            [
                "127.0.0.1:8000".parse().unwrap(),
                "[::1]:8000".parse().unwrap()
            ]
        );
    }
}
