//! Threads for bodies, apart from those of the server.
//!
//! A body that blocks its thread stops everything that shares the thread. Here that is other
//! bodies, and never what tells of it: polls, cancels and their graces, deadlines, events and the
//! end of the process.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// The fewest threads: also on a board with one core.
const FEWEST: usize = 2;

/// How often a thread that waits is woken. The one that watches the timers and the sockets of all
/// bodies may be kept by one of them, and tells no other thread then.
const TICK: Duration = Duration::from_millis(250);

/// How long what bodies leave behind may take to end.
const LONGEST_END: Duration = Duration::from_secs(1);

/// A runtime that runs bodies, and what they spawn. It ends with the server's.
pub(crate) struct Apart {
    /// The server's runtime: the timers of tasks are there.
    home: Handle,
    bodies: Handle,
    threads: Arc<Threads>,
}

impl Apart {
    /// For a server on the current runtime.
    pub(crate) fn from_here() -> io::Result<Self> {
        let home = Handle::try_current().map_err(io::Error::other)?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads(cores.max(FEWEST))
            .thread_name("rvc-body")
            .enable_all()
            .build()?;
        let bodies = runtime.handle().clone();
        let threads = Arc::new(Threads(Mutex::new(Some(runtime))));
        let (watched, ticked) = (WithHome(Arc::clone(&threads)), bodies.clone());
        home.spawn(async move {
            let watched = watched;
            while watched.0.are_there() {
                tokio::time::sleep(TICK).await;
                ticked.spawn(async {});
            }
        });
        Ok(Self {
            home,
            bodies,
            threads,
        })
    }

    /// The server's runtime and that of bodies, until they end.
    pub(crate) fn runtimes(&self) -> Option<(Handle, Handle)> {
        let runtimes = || (self.home.clone(), self.bodies.clone());
        self.threads.are_there().then(runtimes)
    }

    /// Drops what bodies have spawned and left behind, as the end of their runtime would. Threads
    /// that are still blocked then are left to the end of the process.
    pub(crate) async fn end(&self) {
        let (done, ended) = oneshot::channel();
        self.threads.end(move || {
            // Nobody waits if the close was dropped.
            let _ = done.send(());
        });
        // Without an answer there is nothing to wait for.
        let _ = ended.await;
    }
}

/// The threads of bodies, none once they were ended.
struct Threads(Mutex<Option<Runtime>>);

impl Threads {
    fn are_there(&self) -> bool {
        self.runtime().is_some()
    }

    /// Begins to end them, and says when they have.
    fn end(&self, ended: impl FnOnce() + Send + 'static) {
        let Some(runtime) = self.runtime().take() else {
            return;
        };
        let ending = Self(Mutex::new(Some(runtime)));
        // A runtime must not be waited for in another one. Where there is no thread to do so,
        // it is dropped.
        let _ = thread::Builder::new().spawn(move || {
            let runtime = ending.runtime().take();
            if let Some(runtime) = runtime {
                runtime.shutdown_timeout(LONGEST_END);
            }
            ended();
        });
    }

    fn runtime(&self) -> MutexGuard<'_, Option<Runtime>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // It may be dropped in a runtime, even in its own, which must not be waited for there.
        if let Some(runtime) = self.runtime().take() {
            runtime.shutdown_background();
        }
    }
}

/// Dropped with the server's runtime, at the end of the program say: what bodies hold is dropped
/// then too, as it would be if they ran there.
struct WithHome(Arc<Threads>);

impl Drop for WithHome {
    fn drop(&mut self) {
        let (done, ended) = std::sync::mpsc::channel();
        self.0.end(move || {
            let _ = done.send(());
        });
        // Bounded by the end itself; without one the sender is gone.
        let _ = ended.recv();
    }
}
