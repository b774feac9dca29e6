//! A server that one client started, over standard input and output.

use std::io::{self, Read, Write};
use std::pin::pin;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::server::ServeError;

/// How long answers in flight may take to go out.
const ANSWERS: Duration = Duration::from_secs(5);

const BUFFER: usize = 64 * 1024;

/// Serves one client until its input ends or `shutdown` resolves; then runs `close`.
pub(crate) async fn run<H: ServerHandler>(
    handler: H,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    close: impl Future<Output = ()>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let end = CancellationToken::new();
    let _end_on_drop = end.clone().drop_guard();
    let transport = AsyncRwTransport::new_server(input, output);
    let mut session = pin!(session(handler, transport, end.clone()));
    tokio::select! {
        biased;
        () = shutdown => {
            close.await;
            // rmcp sends the answers in flight before it ends.
            end.cancel();
            timeout(ANSWERS, session).await.unwrap_or(Ok(()))
        }
        result = &mut session => {
            close.await;
            result
        }
    }
}

async fn session<H: ServerHandler>(
    handler: H,
    transport: impl rmcp::transport::Transport<rmcp::RoleServer> + 'static,
    end: CancellationToken,
) -> Result<(), ServeError> {
    match serve_server_with_ct(handler, transport, end).await {
        Ok(running) => {
            // How it ended was logged by rmcp.
            let _ = running.waiting().await;
            Ok(())
        }
        // Nobody came, which is no fault.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(ServeError::Session(Box::new(error))),
    }
}

/// The process's own standard input and output.
///
/// Threads of their own read and write them. Tokio's would do it on its blocking pool, and a
/// runtime does not end while that waits for a terminal or for a client that does not read.
pub(crate) fn of_process() -> (DuplexStream, DuplexStream, Written) {
    let runtime = Handle::current();
    let (input, mut to_server) = duplex(BUFFER);
    let (output, mut from_server) = duplex(BUFFER);
    let (done, written) = oneshot::channel();

    let reader = runtime.clone();
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; BUFFER];
        loop {
            match stdin.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    if reader.block_on(to_server.write_all(&buffer[..n])).is_err() {
                        return;
                    }
                }
            }
        }
    });
    std::thread::spawn(move || {
        let mut stdout = io::stdout().lock();
        let mut buffer = vec![0; BUFFER];
        while let Ok(n @ 1..) = runtime.block_on(from_server.read(&mut buffer)) {
            let written = stdout.write_all(&buffer[..n]).and_then(|()| stdout.flush());
            if written.is_err() {
                return;
            }
        }
        // Nobody waits when the server was dropped.
        let _ = done.send(());
    });
    (input, output, Written(written))
}

/// Resolves when all output was written.
pub(crate) struct Written(oneshot::Receiver<()>);

impl Written {
    /// Waits a bounded time: a client that does not read keeps nobody.
    pub(crate) async fn wait(self) {
        let _ = timeout(ANSWERS, self.0).await;
    }
}
