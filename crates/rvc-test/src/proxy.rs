//! A TCP proxy that fails on demand.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Where a [`FaultProxy`] forwards to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A TCP proxy on a free loopback port that cuts, refuses, stalls and delays on demand.
///
/// ```text
/// client ──► 127.0.0.1:PORT ──► target (TCP or a Unix socket)
///                 │ cut · refuse · stall · delay · lose an answer
/// ```
///
/// It runs on a thread of its own. The port stays the same, and nobody else's, while it lives,
/// also while connections are refused.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    /// Bound and never listening: it keeps the port.
    _reserve: TcpSocket,
}

#[derive(Debug)]
struct Shared {
    rules: watch::Sender<Rules>,
    /// The answer that does not pass, and cuts its connection.
    lost_answer: Mutex<Option<LostAnswer>>,
    lost_answers: AtomicU64,
    relayed: AtomicU64,
}

#[derive(Debug)]
enum LostAnswer {
    /// Once so many bytes of answers have passed.
    After(usize),
    /// That which has these bytes.
    With(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Rules {
    target: Target,
    is_open: bool,
    is_stalled: bool,
    delay: Duration,
    /// A connection that began under another number is cut.
    generation: u64,
}

impl FaultProxy {
    /// Listens, and forwards to `target`.
    ///
    /// # Errors
    ///
    /// No port, or no thread.
    pub fn start(target: Target) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fault-proxy")
            .enable_all()
            .build()?;
        let reserve = socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = reserve.local_addr()?;
        let (rules, _) = watch::channel(Rules {
            target,
            is_open: true,
            is_stalled: false,
            delay: Duration::ZERO,
            generation: 0,
        });
        let shared = Arc::new(Shared {
            rules,
            lost_answer: Mutex::default(),
            lost_answers: AtomicU64::new(0),
            relayed: AtomicU64::new(0),
        });
        let listener = {
            let _inside = runtime.enter();
            listen(address)?
        };
        runtime.spawn(accept(listener, address, shared.clone()));
        Ok(Self {
            address,
            shared,
            runtime: Some(runtime),
            _reserve: reserve,
        })
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections have reached the target.
    #[must_use]
    pub fn relayed(&self) -> u64 {
        self.shared.relayed.load(Ordering::SeqCst)
    }

    /// Forwards new connections to another target. Those that are open stay.
    pub fn retarget(&self, target: Target) {
        self.change(|rules| rules.target = target);
    }

    /// Cuts every connection, in the middle of whatever it carries. New ones are taken.
    pub fn cut(&self) {
        self.change(|rules| rules.generation += 1);
    }

    /// Cuts every connection and refuses new ones, until [`restore`](Self::restore).
    pub fn refuse(&self) {
        self.change(|rules| {
            rules.is_open = false;
            rules.generation += 1;
        });
    }

    /// Forwards nothing and accepts everything, until [`restore`](Self::restore). What was
    /// being carried arrives then.
    pub fn stall(&self) {
        self.change(|rules| rules.is_stalled = true);
    }

    /// Holds every piece for `delay`, in both directions.
    pub fn delay(&self, delay: Duration) {
        self.change(|rules| rules.delay = delay);
    }

    /// Lets `bytes` more of the target's answers pass, of all connections together; the
    /// connection that carries the next one is cut, once. With 0 the next answer is lost.
    pub fn cut_answers_after(&self, bytes: usize) {
        *self.shared.lost_answer() = Some(LostAnswer::After(bytes));
    }

    /// Cuts the connection that carries the next answer with `bytes` in it, once. Such an answer
    /// comes in one piece: where it does not, it passes.
    pub fn cut_answer_with(&self, bytes: &[u8]) {
        *self.shared.lost_answer() = Some(LostAnswer::With(bytes.to_vec()));
    }

    /// How many answers have been lost so.
    #[must_use]
    pub fn lost_answers(&self) -> u64 {
        self.shared.lost_answers.load(Ordering::SeqCst)
    }

    /// Ends refusing, stalling, delaying, and an answer's cut that has not happened.
    pub fn restore(&self) {
        *self.shared.lost_answer() = None;
        self.change(|rules| {
            rules.is_open = true;
            rules.is_stalled = false;
            rules.delay = Duration::ZERO;
        });
    }

    fn change(&self, change: impl FnOnce(&mut Rules)) {
        self.shared.rules.send_modify(change);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting is not allowed where the last handle may be dropped: inside a runtime.
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn lost_answer(&self) -> std::sync::MutexGuard<'_, Option<LostAnswer>> {
        self.lost_answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a piece of an answer may pass; the piece that may not is the last one looked at.
    fn may_answer(&self, piece: &[u8]) -> bool {
        let mut lost = self.lost_answer();
        let is_lost = match lost.as_mut() {
            None => false,
            Some(LostAnswer::After(room)) => match room.checked_sub(piece.len()) {
                Some(left) => {
                    *room = left;
                    false
                }
                None => true,
            },
            Some(LostAnswer::With(bytes)) => piece.windows(bytes.len()).any(|it| it == bytes),
        };
        if is_lost {
            *lost = None;
            self.lost_answers.fetch_add(1, Ordering::SeqCst);
        }
        !is_lost
    }
}

/// A socket on the port, which several of ours may have at once. Without `SO_REUSEADDR`, by
/// which anybody else could have it too while nobody listens.
fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    socket(address)?.listen(BACKLOG)
}

/// Accepts while connections are taken; a listener that is gone refuses.
async fn accept(first: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    let mut rules = shared.rules.subscribe();
    let mut listener = Some(first);
    loop {
        let Some(open) = &listener else {
            if rules.wait_for(|rules| rules.is_open).await.is_err() {
                return;
            }
            listener = listen(address).ok();
            continue;
        };
        tokio::select! {
            accepted = open.accept() => {
                if let Ok((client, _)) = accepted {
                    tokio::spawn(relay(client, shared.clone()));
                }
            }
            closed = rules.wait_for(|rules| !rules.is_open) => {
                if closed.is_err() {
                    return;
                }
                listener = None;
            }
        }
    }
}

/// Carries one connection until one side ends or a fault cuts it.
async fn relay(client: TcpStream, shared: Arc<Shared>) {
    let mut rules = shared.rules.subscribe();
    let begun = rules.borrow_and_update().clone();
    if !begun.is_open {
        return;
    }
    let carried = async {
        // Small pieces of several protocols must not wait for each other.
        let _ = client.set_nodelay(true);
        match &begun.target {
            Target::Tcp(address) => {
                let server = TcpStream::connect(address).await?;
                let _ = server.set_nodelay(true);
                carry(client, server, &shared).await
            }
            Target::Unix(path) => carry(client, UnixStream::connect(path).await?, &shared).await,
        }
    };
    tokio::select! {
        // How a connection ended is the peers' to notice.
        _ = carried => {}
        _ = rules.wait_for(|rules| rules.generation != begun.generation) => {}
    }
}

async fn carry<S>(client: TcpStream, server: S, shared: &Shared) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite,
{
    shared.relayed.fetch_add(1, Ordering::SeqCst);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = tokio::io::split(server);
    tokio::try_join!(
        pump(from_client, to_server, shared, |_| true),
        pump(from_server, to_client, shared, |piece| shared
            .may_answer(piece)),
    )?;
    Ok(())
}

/// Copies one direction, piece by piece, as the rules allow.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    shared: &Shared,
    may_pass: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    let mut rules = shared.rules.subscribe();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let bytes = from.read(&mut buffer).await?;
        let delay = match rules.wait_for(|rules| !rules.is_stalled).await {
            Ok(rules) => rules.delay,
            Err(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
        };
        if bytes == 0 {
            return to.shutdown().await;
        }
        if delay > Duration::ZERO {
            tokio::time::sleep(delay).await;
        }
        if !may_pass(&buffer[..bytes]) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        to.write_all(&buffer[..bytes]).await?;
    }
}

const BACKLOG: u32 = 1024;

#[cfg(test)]
mod tests;
