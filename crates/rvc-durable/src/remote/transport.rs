use std::borrow::Cow;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;

/// What went wrong in a transport, with the transport's own error as the source.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// A client transport of rmcp, whichever it is.
///
/// The seam where transports from elsewhere come in: streamable HTTP from rmcp, HTTP+SSE from
/// `rvc-mcp`, a pipe in memory from a test.
pub struct BoxTransport(Box<dyn Erased>);

impl BoxTransport {
    /// Takes a transport.
    pub fn new<T: Transport<RoleClient> + 'static>(transport: T) -> Self {
        Self(Box::new(Of(transport)))
    }

    /// Takes a stream of bytes that carries one JSON message a line, as stdio does.
    pub fn lines<S>(stream: S) -> Self
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + 'static,
    {
        let (read, write) = tokio::io::split(stream);
        Self::new(rmcp::transport::async_rw::AsyncRwTransport::new_client(
            read, write,
        ))
    }
}

impl Transport<RoleClient> for BoxTransport {
    type Error = TransportError;

    fn name() -> Cow<'static, str> {
        "rvc-durable".into()
    }

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), TransportError>> + Send + 'static {
        self.0.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<ServerJsonRpcMessage>> + Send {
        self.0.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), TransportError>> + Send {
        self.0.close()
    }
}

/// [`Transport`] with boxed futures, so that it can be a trait object.
trait Erased: Send {
    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> BoxFuture<'static, Result<(), TransportError>>;
    fn receive(&mut self) -> BoxFuture<'_, Option<ServerJsonRpcMessage>>;
    fn close(&mut self) -> BoxFuture<'_, Result<(), TransportError>>;
}

struct Of<T>(T);

impl<T: Transport<RoleClient>> Erased for Of<T> {
    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> BoxFuture<'static, Result<(), TransportError>> {
        let sent = self.0.send(message);
        async move { sent.await.map_err(|error| TransportError(Box::new(error))) }.boxed()
    }

    fn receive(&mut self) -> BoxFuture<'_, Option<ServerJsonRpcMessage>> {
        self.0.receive().boxed()
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), TransportError>> {
        let closed = self.0.close();
        async move {
            closed
                .await
                .map_err(|error| TransportError(Box::new(error)))
        }
        .boxed()
    }
}
