use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;

use crate::stall_guard::StallGuard;
use crate::{EventService, Handler};

/// Serves events on a listener until `shutdown` is ready, then ends in order.
///
/// At most 256 connections are open at once; others wait in the listener's backlog. A connection
/// has 30 s for a request's head, as long between two requests, and as long until its peer has
/// taken an answer that it was slow to read. When it is told to end, it accepts nothing new, lets
/// requests under way finish for up to 5 s, and waits in the same time for the handler.
///
/// # Cancel safety
///
/// Dropped, it accepts nothing new. Requests under way finish on their own, and their connections
/// close.
pub async fn serve<H: Handler>(
    listener: TcpListener,
    service: EventService<H>,
    shutdown: impl Future<Output = ()>,
) {
    let connections = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, place) = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut shutdown => break,
        };
        open(stream, place, service.clone(), &connections);
    }
    drop(listener);
    let end = async {
        connections.shutdown().await;
        service.idle().await;
    };
    if tokio::time::timeout(DRAIN, end).await.is_err() {
        tracing::warn!("requests were still under way when the receiver ended");
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            // The peer is gone already, or file descriptors ran out: neither ends the receiver.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn open<H: Handler>(
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    service: EventService<H>,
    connections: &GracefulShutdown,
) {
    let peer = stream.peer_addr().map(|address| address.to_string());
    let span = tracing::info_span!("connection", peer = peer.as_deref().unwrap_or("unknown"));
    // An answer is one small packet; waiting to fill it costs the sender's round trip.
    let _ = stream.set_nodelay(true);
    tokio::spawn(run(stream, place, service, connections).instrument(span));
}

/// Answers the requests of one connection; its place is free again afterwards.
fn run<S, H>(
    stream: S,
    place: OwnedSemaphorePermit,
    service: EventService<H>,
    connections: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + use<S, H>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Handler,
{
    let stream = TokioIo::new(StallGuard::new(stream, LONGEST_STALL));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(stream, service);
    let connection = connections.watch(connection);
    async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection broke");
        }
        drop(place);
    }
}

const MAX_CONNECTIONS: usize = 256;
const MAX_HEAD_BYTES: usize = 64 << 10;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const DRAIN: Duration = Duration::from_secs(5);
/// As long as hyper waits for a head.
const LONGEST_STALL: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::{Accepted, Inbox};

    /// A receiver with one place, which is taken.
    struct Receiver {
        places: Arc<Semaphore>,
        /// Dropped, it would end the connection.
        _connections: GracefulShutdown,
    }

    /// Serves one connection in memory; answers the peer's end too.
    fn connect() -> (DuplexStream, Receiver) {
        let secret = rvc_sign::Secret::new(b"s3cret").unwrap();
        let inbox = Inbox::builder().server("navigation".parse().unwrap(), [secret]);
        let inbox = inbox.build().unwrap();
        let service = EventService::builder(inbox, |_: Accepted| async { Ok(()) }).build();
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let (near, far) = duplex(256);
        let connections = GracefulShutdown::new();
        tokio::spawn(run(near, place, service, &connections));
        let receiver = Receiver {
            places,
            _connections: connections,
        };
        (far, receiver)
    }

    /// Sends requests for as long as somebody takes them; answers how it ended.
    async fn pipeline(mut peer: impl AsyncWrite + Unpin) -> io::Error {
        loop {
            let sent = peer.write_all(b"GET / HTTP/1.1\r\nhost: brain\r\n\r\n");
            if let Err(error) = sent.await {
                return error;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_no_answer_loses_its_place() {
        let (peer, receiver) = connect();
        let start = Instant::now();
        pipeline(peer).await;
        let _place = receiver.places.acquire().await.unwrap();
        let held = start.elapsed();
        assert!(
            held >= LONGEST_STALL && held < 2 * LONGEST_STALL,
            "{held:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_byte_by_byte_loses_its_place() {
        let (peer, receiver) = connect();
        let (mut answers, requests) = tokio::io::split(peer);
        let drip = async {
            loop {
                sleep(Duration::from_secs(20)).await;
                answers.read_exact(&mut [0]).await.unwrap();
            }
        };
        let start = Instant::now();
        tokio::select! {
            _ = pipeline(requests) => {}
            () = drip => {}
            () = sleep(3 * LONGEST_STALL) => {}
        }
        let _place = receiver.places.acquire().await.unwrap();
        let held = start.elapsed();
        assert!(
            held >= LONGEST_STALL && held < 2 * LONGEST_STALL,
            "{held:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_late_but_reads_keeps_its_place() {
        let (peer, receiver) = connect();
        let (mut answers, requests) = tokio::io::split(peer);
        let read_late = async {
            loop {
                sleep(Duration::from_secs(20)).await;
                // All that fits into the pipe and the server's buffer.
                for _ in 0..16 {
                    let _ = timeout(Duration::from_millis(1), answers.read(&mut [0; 256])).await;
                }
            }
        };
        tokio::select! {
            error = pipeline(requests) => panic!("cut off: {error}"),
            () = read_late => {}
            () = sleep(Duration::from_secs(600)) => {}
        }
        assert_eq!(receiver.places.available_permits(), 0);
    }
}
