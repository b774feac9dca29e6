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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult};
    use rmcp::service::{RequestContext, RoleClient, RunningService};
    use rmcp::{ErrorData, RoleServer, ServiceExt};
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;

    use super::*;

    /// A handler whose tools answer once the task manager is closed.
    struct Late {
        called: Arc<Notify>,
        answer: Arc<Notify>,
    }

    impl ServerHandler for Late {
        async fn call_tool(
            &self,
            _: CallToolRequestParams,
            _: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, ErrorData> {
            self.called.notify_one();
            self.answer.notified().await;
            Ok(CallToolResult::success(vec![]).into())
        }
    }

    struct Rig {
        client: RunningService<RoleClient, ()>,
        called: Arc<Notify>,
        stop: CancellationToken,
        closed: CancellationToken,
        server: JoinHandle<Result<(), ServeError>>,
    }

    async fn connect() -> Rig {
        let (client_input, output) = duplex(BUFFER);
        let (input, client_output) = duplex(BUFFER);
        let (called, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let handler = Late {
            called: Arc::clone(&called),
            answer: Arc::clone(&answer),
        };
        let (stop, closed) = (CancellationToken::new(), CancellationToken::new());
        let shutdown = stop.clone().cancelled_owned();
        let is_closed = closed.clone();
        let close = async move {
            answer.notify_one();
            is_closed.cancel();
        };
        let server = tokio::spawn(run(handler, input, output, close, shutdown));
        Rig {
            client: ().serve((client_input, client_output)).await.unwrap(),
            called,
            stop,
            closed,
            server,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_closes_the_manager_and_lets_the_answers_in_flight_go_out() {
        let rig = connect().await;
        let peer = rig.client.peer().clone();
        let call =
            tokio::spawn(async move { peer.call_tool(CallToolRequestParams::new("late")).await });
        rig.called.notified().await;

        rig.stop.cancel();

        assert!(call.await.unwrap().is_ok());
        rig.server.await.unwrap().unwrap();
        assert!(rig.closed.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_input_closes_the_manager() {
        let rig = connect().await;

        rig.client.cancel().await.unwrap();

        rig.server.await.unwrap().unwrap();
        assert!(rig.closed.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_before_the_handshake_closes_the_manager() {
        let (input, _client) = duplex(BUFFER);
        let (_other, output) = duplex(BUFFER);
        let closed = CancellationToken::new();
        let close = async { closed.cancel() };
        let handler = Late {
            called: Arc::default(),
            answer: Arc::default(),
        };

        run(handler, input, output, close, async {}).await.unwrap();

        assert!(closed.is_cancelled());
    }
}
