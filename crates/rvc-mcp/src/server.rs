//! A server from its first request to its orderly end.

mod http;
mod signals;
mod stdio;

use std::io;
use std::net::SocketAddr;

use rmcp::ServerHandler;
use rmcp::service::ServerInitializeError;
use rvc_tasks::TaskManager;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{ServeConfig, Transport};
use crate::server::signals::Signals;

/// Serves until SIGTERM or Ctrl-C, then ends in order. Contract decision 27.
///
/// `factory` makes the handler of each session, so it usually clones one. In order means: no new
/// connection is taken, `manager` is closed (running tasks are cancelled, events drain), answers
/// in flight go out, sessions end. On stdio, the end of standard input does the same.
///
/// A second signal ends the process at once, with exit code 128 plus the signal's number.
///
/// # Errors
///
/// As [`Server::bind`] and [`Server::run`]; also when signals cannot be listened for.
///
/// # Cancel safety
///
/// Dropping the future ends all connections at once, and leaves `manager` as it is.
pub async fn serve<H, F>(
    config: ServeConfig,
    factory: F,
    manager: TaskManager,
) -> Result<(), ServeError>
where
    H: ServerHandler,
    F: Fn() -> H + Send + Sync + 'static,
{
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let server = Server::bind(config).await?;
    let stop = CancellationToken::new();
    let server = server.run(factory, manager, stop.clone().cancelled_owned());
    let watch = async {
        let first = signals.next().await;
        tracing::info!(signal = first.name, "ending in order");
        stop.cancel();
        let second = signals.next().await;
        tracing::warn!(signal = second.name, "ending at once");
        std::process::exit(128 + second.number)
    };
    tokio::select! {
        result = server => result,
        never = watch => never,
    }
}

/// A server that listens and is not yet run.
///
/// # Examples
///
/// ```no_run
/// use rvc_mcp::{ServeConfig, Server, Transport};
///
/// # async fn example<H: rmcp::ServerHandler + Clone>(
/// #     handler: H,
/// #     manager: rvc_tasks::TaskManager,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let config = ServeConfig::default()
///     .with_transport(Transport::StreamableHttp)
///     .with_port(0);
/// let server = Server::bind(config).await?;
/// println!("{}", server.url().expect("it has a port"));
///
/// let stop = async { /* your own reason to end */ };
/// server.run(move || handler.clone(), manager, stop).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    config: ServeConfig,
    /// None on stdio.
    listener: Option<(TcpListener, SocketAddr)>,
}

impl Server {
    /// Listens on the configured address; on stdio there is nothing to do.
    ///
    /// # Errors
    ///
    /// [`ServeError::Bind`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future frees the address.
    pub async fn bind(config: ServeConfig) -> Result<Self, ServeError> {
        let listener = match config.transport() {
            Transport::Stdio => None,
            Transport::StreamableHttp | Transport::Sse => {
                let bind = async {
                    let listener = TcpListener::bind(config.address()).await?;
                    // Its connections inherit it.
                    SockRef::from(&listener).set_send_buffer_size(http::SEND_BUFFER)?;
                    let address = listener.local_addr()?;
                    Ok((listener, address))
                };
                let bound = bind.await.map_err(|source| {
                    let (host, port) = config.address();
                    ServeError::Bind {
                        address: format!("{host} port {port}"),
                        source,
                    }
                })?;
                Some(bound)
            }
        };
        for warning in config.warnings() {
            tracing::warn!("{warning}");
        }
        Ok(Self { config, listener })
    }

    /// The address that clients can connect to; none on stdio.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }

    /// The URL to give to a client on this machine; none on stdio.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        let mut address = self.local_addr()?;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let path = match self.config.transport() {
            Transport::Sse => "sse",
            _ => "mcp",
        };
        Some(format!("http://{address}/{path}"))
    }

    /// Serves until `shutdown` resolves, then ends in order, as [`serve`] does.
    ///
    /// From here on the bodies of `manager`'s tasks
    /// [run apart](rvc_tasks::TaskManager::run_bodies_apart): one that blocks its thread keeps no
    /// request from being answered and no signal from being heard. Tools run on the current
    /// runtime, and what blocks in a tool's own call does block the server.
    ///
    /// It ends within `manager`'s own time for closing plus ten seconds, whatever clients do.
    ///
    /// # Errors
    ///
    /// [`ServeError::Session`] when the client on stdio does not speak MCP,
    /// [`ServeError::Threads`] when there are none for the bodies.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends all connections at once, and leaves `manager` as it is.
    pub async fn run<H, F>(
        self,
        factory: F,
        manager: TaskManager,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError>
    where
        H: ServerHandler,
        F: Fn() -> H + Send + Sync + 'static,
    {
        manager.run_bodies_apart().map_err(ServeError::Threads)?;
        let transport = self.config.transport();
        let url = self.url();
        tracing::info!(%transport, url, "serving");
        let close = async { manager.close().await };
        let result = match self.listener {
            None => {
                let (stdin, stdout, written) = stdio::of_process();
                let result = stdio::run(factory(), stdin, stdout, close, shutdown).await;
                written.wait().await;
                result
            }
            Some((listener, _)) => {
                http::run(&self.config, listener, factory, close, shutdown).await;
                Ok(())
            }
        };
        tracing::info!("ended");
        result
    }
}

/// Why a server did not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address could not be listened on.
    #[error("could not listen on {address}")]
    Bind {
        /// The host and port that were asked for.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// Signals could not be listened for.
    #[error("could not listen for signals")]
    Signals(#[source] io::Error),

    /// There are no threads for the bodies of tasks.
    #[error("could not start threads for the bodies of tasks")]
    Threads(#[source] io::Error),

    /// The client on stdio did not speak MCP.
    #[error("the client on standard input does not speak MCP")]
    Session(#[source] Box<ServerInitializeError>),
}
