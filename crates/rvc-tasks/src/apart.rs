//! Threads for bodies, apart from those of the server.
//!
//! A body that blocks its thread stops everything that shares the thread. Here that is other
//! bodies, and never what tells of it: polls, cancels and their graces, deadlines, events and the
//! end of the process.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// The fewest threads: on a board with one core, too, one body that blocks leaves others going.
const FEWEST: usize = 2;

/// How long what bodies leave behind may take to end.
const LONGEST_END: Duration = Duration::from_secs(1);

/// A runtime that runs bodies, and what they spawn.
pub(crate) struct Apart {
    /// The server's runtime: the timers of tasks are there.
    home: Handle,
    bodies: Handle,
    /// None once it was ended.
    runtime: Mutex<Option<Runtime>>,
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
        Ok(Self {
            home,
            bodies: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
        })
    }

    pub(crate) const fn home(&self) -> &Handle {
        &self.home
    }

    pub(crate) const fn bodies(&self) -> &Handle {
        &self.bodies
    }

    /// Drops what bodies have spawned and left behind, as the end of their runtime would. Threads
    /// that are still blocked then are left to the end of the process.
    pub(crate) async fn end(&self) {
        let Some(runtime) = self.runtime().take() else {
            return;
        };
        let (done, ended) = oneshot::channel();
        // A runtime must not be waited for in another one.
        thread::spawn(move || {
            runtime.shutdown_timeout(LONGEST_END);
            // Nobody waits if the close was dropped.
            let _ = done.send(());
        });
        // Without an answer there is nothing to wait for.
        let _ = ended.await;
    }

    fn runtime(&self) -> MutexGuard<'_, Option<Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // It may be dropped in a runtime, even in its own, which must not be waited for there.
        if let Some(runtime) = self.runtime().take() {
            runtime.shutdown_background();
        }
    }
}
