//! An HTTP/1.1 endpoint that answers as a test says, in memory or on TCP.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

mod exchange;
mod reply;

pub use reply::Reply;

/// A scripted endpoint. Clones are the same endpoint.
///
/// It asks the script for a [`Reply`] to every request that it has read in full. Run it under the
/// paused clock with [`connect`](Self::connect), which needs no socket.
#[derive(Clone)]
pub struct ScriptedEndpoint {
    shared: Arc<Shared>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// When its last byte came, by tokio's clock.
    pub at: Instant,
    /// Which connection it came on, from 1.
    pub connection: usize,
    /// The request line's method.
    pub method: String,
    /// The request line's target.
    pub target: String,
    /// Names in lower case, and values, in the order they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

struct Shared {
    script: Mutex<Script>,
    received: Mutex<Vec<Received>>,
    is_up: watch::Sender<bool>,
    connects: AtomicUsize,
    accepted: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

type Script = Box<dyn FnMut(&Received) -> Reply + Send>;

impl ScriptedEndpoint {
    /// An endpoint that asks `script` for each reply.
    pub fn new(script: impl FnMut(&Received) -> Reply + Send + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                script: Mutex::new(Box::new(script)),
                received: Mutex::default(),
                is_up: watch::Sender::new(true),
                connects: AtomicUsize::new(0),
                accepted: AtomicUsize::new(0),
                open: AtomicUsize::new(0),
                most_open: AtomicUsize::new(0),
            }),
        }
    }

    /// An endpoint that gives these replies in turn, and answers 200 after them.
    pub fn answering<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().map(Into::into).collect();
        let mut replies = replies.into_iter();
        Self::new(move |_| replies.next().unwrap_or(Reply::status(200)))
    }

    /// Opens a connection in memory.
    ///
    /// # Errors
    ///
    /// Refused while the endpoint is down.
    ///
    /// # Cancel safety
    ///
    /// It does not wait.
    #[expect(
        clippy::unused_async,
        reason = "connecting is asynchronous for its callers"
    )]
    pub async fn connect(&self) -> io::Result<DuplexStream> {
        self.shared.connects.fetch_add(1, Ordering::Relaxed);
        if !*self.shared.is_up.borrow() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(64 << 10);
        let endpoint = self.clone();
        tokio::spawn(async move { endpoint.serve(far).await });
        Ok(near)
    }

    /// Listens on a free TCP port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Whatever keeps the socket from being bound.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its end, nothing listens.
    pub async fn listen(&self) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let endpoint = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                endpoint.shared.connects.fetch_add(1, Ordering::Relaxed);
                let _ = stream.set_nodelay(true);
                let endpoint = endpoint.clone();
                tokio::spawn(async move { endpoint.serve(stream).await });
            }
        });
        Ok(address)
    }

    /// Serves one connection that was opened in another way, until it ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connection.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let shared = &self.shared;
        let mut is_up = shared.is_up.subscribe();
        let connection = shared.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let open = Open::count(shared);
        tokio::select! {
            biased;
            _ = is_up.wait_for(|is_up| !is_up) => {}
            // The peer may hang up at any time; that ends the exchange.
            _ = exchange::serve(stream, connection, |received| self.reply(received)) => {}
        }
        drop(open);
    }

    /// Refuses connections and closes those that are open.
    pub fn go_down(&self) {
        self.shared.is_up.send_replace(false);
    }

    /// Accepts connections again.
    pub fn come_back(&self) {
        self.shared.is_up.send_replace(true);
    }

    /// The requests that came in full, in order.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        lock(&self.shared.received).clone()
    }

    /// How often somebody tried to connect.
    #[must_use]
    pub fn connects(&self) -> usize {
        self.shared.connects.load(Ordering::Relaxed)
    }

    /// How many connections are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// How many connections were open at once at most.
    #[must_use]
    pub fn most_open(&self) -> usize {
        self.shared.most_open.load(Ordering::Relaxed)
    }

    fn reply(&self, received: Received) -> Reply {
        let reply = lock(&self.shared.script)(&received);
        lock(&self.shared.received).push(received);
        reply
    }
}

impl Received {
    /// The value of a header, if it came exactly once.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(key, _)| key == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }
}

/// Counts a connection while it is open.
struct Open<'a>(&'a Shared);

impl<'a> Open<'a> {
    fn count(shared: &'a Shared) -> Self {
        let open = shared.open.fetch_add(1, Ordering::Relaxed) + 1;
        shared.most_open.fetch_max(open, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
