//! Connections, from accept to the orderly end.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::ServerHandler;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutWriter;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{ServeConfig, Transport};
use crate::limit::{CONNECTIONS, Limit};
use crate::sse::SseService;
use crate::streamable::Streamable;

/// How long answers in flight may take to go out.
const ANSWERS: Duration = Duration::from_secs(5);

/// How long sessions may take to end; rmcp gives its own two seconds.
const ENDS: Duration = Duration::from_secs(4);

/// How long a client may take over a request's head, and a connection may be idle.
const HEAD: Duration = Duration::from_secs(120);

/// How long a client may take nothing of what is written to it: its connection is a place that
/// another one waits for. Who reads slowly keeps it, since an answer may be large; 2 kB/s are
/// enough.
const STALLED: Duration = Duration::from_secs(30);

/// What the system keeps of an answer until the client takes it, in bytes; Linux doubles it. A
/// socket is writable again when a third is free: of the megabytes that it would grow to, a slow
/// client does not take as much in time.
pub(crate) const SEND_BUFFER: usize = 64 * 1_024;

/// Serves until `shutdown` resolves, then runs `close` and ends in order.
pub(crate) async fn run<H, F>(
    config: &ServeConfig,
    listener: TcpListener,
    factory: F,
    close: impl Future<Output = ()>,
    shutdown: impl Future<Output = ()>,
) where
    H: ServerHandler,
    F: Fn() -> H + Send + Sync + 'static,
{
    let ends = Ends::default();
    // Dropping this future ends everything at once.
    let _sessions_end = ends.sessions.clone().drop_guard();
    let _connections_end = ends.connections.clone().drop_guard();
    let calls = TaskTracker::new();
    let services = TaskTracker::new();
    let connections = TaskTracker::new();
    let routes = Arc::new(Routes::new(
        config,
        factory,
        calls.clone(),
        services.clone(),
        ends.sessions.clone(),
    ));

    let door = Door::new(CONNECTIONS);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            (stream, place) = door.enter(&listener) => {
                let connection = connection(stream, Arc::clone(&routes), ends.clone());
                connections.spawn(async move {
                    let _place = place;
                    connection.await;
                });
            }
        }
    }

    drop(listener);
    ends.idle.cancel();
    close.await;
    calls.close();
    if timeout(ANSWERS, calls.wait()).await.is_err() {
        tracing::warn!(calls = calls.len(), "ending with calls unanswered");
    }
    ends.sessions.cancel();
    services.close();
    connections.close();
    if timeout(ENDS, join(services.wait(), connections.wait()))
        .await
        .is_err()
    {
        tracing::warn!(
            connections = connections.len(),
            "ending connections at once"
        );
    }
}

/// What ends, one after the other.
#[derive(Clone, Default)]
struct Ends {
    /// Connections take no further request.
    idle: CancellationToken,
    /// Sessions end, and with them the streams that hold connections open.
    sessions: CancellationToken,
    /// Connections are dropped.
    connections: CancellationToken,
}

/// The one transport that this server speaks.
enum Routes<H, F> {
    Streamable(Streamable<H>),
    Sse(SseService<F>),
}

impl<H, F> Routes<H, F>
where
    H: ServerHandler,
    F: Fn() -> H + Send + Sync + 'static,
{
    fn new(
        config: &ServeConfig,
        factory: F,
        calls: TaskTracker,
        services: TaskTracker,
        end: CancellationToken,
    ) -> Self {
        let access = config.access();
        match config.transport() {
            Transport::Sse => Self::Sse(SseService::new(access, factory, calls, services, end)),
            _ => Self::Streamable(Streamable::new(&access, factory, calls, end)),
        }
    }

    async fn handle(&self, request: Request<Incoming>) -> Response<BoxBody<Bytes, Infallible>> {
        match self {
            Self::Streamable(service) => service.handle(request).await,
            Self::Sse(service) => service.handle(request).await,
        }
    }
}

/// Lets so many connections in; the others wait in the system's queue, at no cost here.
struct Door {
    places: Arc<Semaphore>,
    size: usize,
    most: Limit,
}

impl Door {
    fn new(size: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(size)),
            size,
            most: Limit::new("connections", size),
        }
    }

    /// The next connection, and the place that it takes until it is closed.
    async fn enter(&self, listener: &TcpListener) -> (TcpStream, OwnedSemaphorePermit) {
        self.most
            .has_room(self.size - self.places.available_permits());
        let places = Arc::clone(&self.places);
        let place = places.acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        (accept(listener).await, place)
    }
}

/// The next connection; waits out what a busy machine may lack for a while.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Events are small, and each is waited for.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "could not set nodelay");
                }
                return stream;
            }
            Err(error) => {
                // Mostly too many open files: trying again at once would spin.
                tracing::warn!(%error, "could not accept a connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection<I, H, F>(stream: I, routes: Arc<Routes<H, F>>, ends: Ends)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: ServerHandler,
    F: Fn() -> H + Send + Sync + 'static,
{
    let service = service_fn(move |request| {
        let routes = Arc::clone(&routes);
        async move { Ok::<_, Infallible>(routes.handle(request).await) }
    });
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(STALLED));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = ends.idle.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = &mut connection => ended,
                () = ends.connections.cancelled() => return,
            }
        }
        () = ends.connections.cancelled() => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bytes::Bytes;
    use futures_util::poll;
    use http::header;
    use http_body_util::{BodyExt, Full};
    use rvc_test::Logs;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;
    use tracing::Level;

    use super::*;

    #[derive(Clone)]
    struct Bare;
    impl ServerHandler for Bare {}

    fn connect(transport: Transport, ends: &Ends) -> DuplexStream {
        serve(transport, ends).0
    }

    fn serve(transport: Transport, ends: &Ends) -> (DuplexStream, JoinHandle<()>) {
        let config = ServeConfig::default().with_transport(transport);
        let (calls, services) = (TaskTracker::new(), TaskTracker::new());
        let routes = Routes::new(&config, || Bare, calls, services, ends.sessions.clone());
        let (ours, theirs) = duplex(1024);
        let served = tokio::spawn(connection(theirs, Arc::new(routes), ends.clone()));
        (ours, served)
    }

    async fn open(stream: DuplexStream) -> Response<Incoming> {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/sse")
            .header(header::HOST, "localhost")
            .body(Full::<Bytes>::default())
            .unwrap();
        sender.send_request(request).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_lives_for_days_on_comments_alone() {
        let ends = Ends::default();
        let mut body = open(connect(Transport::Sse, &ends)).await.into_body();
        let begin = Instant::now();

        while begin.elapsed() < Duration::from_secs(2 * 24 * 60 * 60) {
            assert!(body.frame().await.unwrap().is_ok());
        }
        ends.sessions.cancel();
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_connection_over_the_limit_waits_until_another_is_closed() {
        let logs = Logs::capture();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let door = Door::new(2);
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.unwrap());
        }

        let (_, first) = door.enter(&listener).await;
        let (_, _second) = door.enter(&listener).await;
        let mut third = pin!(door.enter(&listener));
        assert!(poll!(&mut third).is_pending());
        assert_eq!(door.places.available_permits(), 0);
        let warnings = logs.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert_eq!(warnings[0].field("of"), Some("connections"));

        drop(first);
        drop(third.await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_never_comes_costs_its_connection() {
        let begin = Instant::now();
        let mut stream = connect(Transport::StreamableHttp, &Ends::default());
        stream.write_all(b"POST /mcp HTTP/1.1\r\n").await.unwrap();

        let mut answer = Vec::new();
        // How it is closed is hyper's affair.
        let _ = stream.read_to_end(&mut answer).await;

        assert_eq!(begin.elapsed().as_secs(), HEAD.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_none_of_its_answers_loses_its_connection() {
        for transport in [Transport::Sse, Transport::StreamableHttp] {
            let (mut stream, served) = serve(transport, &Ends::default());
            let begin = Instant::now();

            // As many requests as are taken, and then the write fails.
            let request = b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n";
            while stream.write_all(request).await.is_ok() {}

            served.await.unwrap();
            assert_eq!(begin.elapsed().as_secs(), STALLED.as_secs(), "{transport}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_its_answers_slowly_keeps_its_connection() {
        let stream = connect(Transport::StreamableHttp, &Ends::default());
        let (mut reader, mut writer) = tokio::io::split(stream);
        let writing = tokio::spawn(async move {
            let request = b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n";
            for _ in 0..100 {
                writer.write_all(request).await.unwrap();
            }
        });

        let mut answers = Vec::new();
        let mut reads = 0;
        while answers.windows(9).filter(|at| *at == b"not found").count() < 100 {
            reads += 1;
            if reads < 6 {
                sleep(STALLED / 2).await;
            }
            let read = reader.read_buf(&mut answers).await.unwrap();
            assert_ne!(read, 0, "it was closed");
        }
        writing.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_stream_that_is_not_read_costs_its_connection() {
        let (mut stream, served) = serve(Transport::Sse, &Ends::default());
        let request = b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request).await.unwrap();

        // Its comments alone fill what lies between.
        let a_day = Duration::from_secs(24 * 60 * 60);
        timeout(a_day, served).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_when_the_server_ends() {
        let ends = Ends::default();
        let mut stream = connect(Transport::StreamableHttp, &ends);
        tokio::task::yield_now().await;

        ends.idle.cancel();

        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
}
