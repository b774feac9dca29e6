use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;

use crate::{EventService, Handler};

/// Serves events on a listener until `shutdown` is ready, then ends in order.
///
/// At most 256 connections are open at once; others wait in the listener's backlog. A connection
/// has 30 s for a request's head, and as long between two requests. When it is told to end, it
/// accepts nothing new, lets requests under way finish for up to 5 s, and waits in the same time
/// for the handler.
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
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let connection = connections.watch(connection);
    let run = async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection broke");
        }
        drop(place);
    };
    tokio::spawn(run.instrument(span));
}

const MAX_CONNECTIONS: usize = 256;
const MAX_HEAD_BYTES: usize = 64 << 10;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const DRAIN: Duration = Duration::from_secs(5);
