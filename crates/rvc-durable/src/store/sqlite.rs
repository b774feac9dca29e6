//! The store on `SQLite`: one file, one writer thread, several processes by leases.

mod claim;
mod clock;
mod engine;
mod input;
mod ledger;
mod migration;
mod raw_claims;
mod raw_row;
mod registrations;
mod rows;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use rusqlite::Connection;
use rvc_wire::Map;
use tokio::sync::mpsc;

use self::engine::{Access, Engine, Queue};
#[cfg(test)]
pub(super) use self::migration::prepare;
use super::{
    AnswerOutcome, CancelOutcome, Census, Claim, ClaimRequest, Claims, Filter, Renewed, Store,
    StoreError, Submitted, Write, Written,
};
use crate::linkage::{HostKind, Linkage, RemoteKind};
use crate::moment::Moment;
use crate::name::{ActionId, OwnerId, RegistrationId, RunId};
use crate::registration::Registration;
use crate::submission::Submission;

/// How a `SQLite` store is opened.
#[derive(Clone)]
#[must_use]
pub struct SqliteOptions {
    path: Option<PathBuf>,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
    busy: Duration,
    inline: bool,
}

impl SqliteOptions {
    /// A database in a file, which is created if it is not there.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            path: Some(path.into()),
            clock: Arc::new(wall_clock),
            busy: Duration::from_secs(5),
            inline: false,
        }
    }

    /// A database in memory, which ends with the store. Nothing of it is durable.
    pub fn memory() -> Self {
        Self {
            path: None,
            ..Self::file("")
        }
    }

    /// Takes the time from `clock` instead of from the system.
    pub fn clock(mut self, clock: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How long to wait for another process that writes (5 s).
    pub fn busy_timeout(mut self, busy: Duration) -> Self {
        self.busy = busy;
        self
    }

    /// Does the work on the caller's thread instead of a thread of its own.
    ///
    /// For simulations: under a paused clock the answer of a thread comes too late.
    pub fn inline(mut self) -> Self {
        self.inline = true;
        self
    }

    /// Opens the database, and migrates it where it is older.
    ///
    /// # Errors
    ///
    /// A file that is newer, damaged, locked, of another program, or cannot be written to.
    pub fn open(self) -> Result<SqliteStore, StoreError> {
        let mut connection = match &self.path {
            Some(path) => Connection::open(path)?,
            None => Connection::open_in_memory()?,
        };
        connection.busy_timeout(self.busy)?;
        let begun = Instant::now();
        // Changing to WAL does not wait for others that do the same.
        while let Err(error) = migration::prepare(&mut connection) {
            if !matches!(error, StoreError::Locked { .. }) || begun.elapsed() >= self.busy {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let engine = Engine::new(connection, self.clock);
        let queue = if self.inline {
            Queue::inline(engine)
        } else {
            Queue::thread(engine)?
        };
        Ok(SqliteStore { queue })
    }
}

fn wall_clock() -> Moment {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Moment::from_unix_ms(0).after(since)
}

/// Linkages, ledger and registrations in one `SQLite` database.
///
/// WAL, `synchronous=FULL`: what returned `Ok` survives a loss of power, as far as the disk
/// tells the truth. One thread writes; it groups what is waiting into one commit. An operation
/// that is refused leaves the others of its group alone.
///
/// Several processes may open the same file; leases keep them apart. The file must be on a
/// local disk.
#[derive(Clone)]
pub struct SqliteStore {
    queue: Queue,
}

impl SqliteStore {
    /// Opens a database in a file with everything at its default.
    ///
    /// # Errors
    ///
    /// See [`SqliteOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        SqliteOptions::file(path.as_ref()).open()
    }

    fn read<T, F>(&self, read: F) -> BoxFuture<'_, Result<T, StoreError>>
    where
        T: Send + 'static,
        F: FnMut(&Connection, Moment) -> Result<T, StoreError> + Send + 'static,
    {
        self.queue.run(Access::Read, read)
    }

    fn change<T, F>(&self, change: F) -> BoxFuture<'_, Result<T, StoreError>>
    where
        T: Send + 'static,
        F: FnMut(&Connection, Moment) -> Result<T, StoreError> + Send + 'static,
    {
        self.queue.run(Access::Write, change)
    }
}

impl Store for SqliteStore {
    fn now(&self) -> BoxFuture<'_, Result<Moment, StoreError>> {
        self.read(|_, now| Ok(now))
    }

    fn submit(
        &self,
        submission: Submission,
        host: HostKind,
    ) -> BoxFuture<'_, Result<Submitted, StoreError>> {
        self.change(move |db, now| ledger::submit(db, now, &submission, host))
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Claims, StoreError>> {
        // The rows come while the group that the claim is in goes on to its commit. Where its
        // transaction is begun anew, it claims once more.
        let (sender, early) = mpsc::unbounded_channel();
        let committed = self.change(move |db, now| {
            let _ = sender.send(claim::claim(db, now, &request)?);
            Ok(())
        });
        Box::pin(raw_claims::read(early, committed))
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        self.change(move |db, now| write::write(db, now, &write))
    }

    fn renew(&self, claim: Claim, lease: Duration) -> BoxFuture<'_, Result<Renewed, StoreError>> {
        self.change(move |db, now| claim::renew(db, now, &claim, lease))
    }

    fn release(&self, claim: Claim) -> BoxFuture<'_, Result<(), StoreError>> {
        self.change(move |db, _| claim::release(db, &claim))
    }

    fn row(&self, action: ActionId) -> BoxFuture<'_, Result<Option<Linkage>, StoreError>> {
        self.read(move |db, _| rows::row(db, &action))
    }

    fn rows(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Linkage>, StoreError>> {
        self.read(move |db, _| rows::list(db, &filter))
    }

    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>> {
        self.read(rows::census)
    }

    fn cancel_action(&self, action: ActionId) -> BoxFuture<'_, Result<CancelOutcome, StoreError>> {
        self.change(move |db, now| ledger::cancel_action(db, now, &action))
    }

    fn cancel_run(&self, run: RunId) -> BoxFuture<'_, Result<Option<Vec<ActionId>>, StoreError>> {
        self.change(move |db, now| ledger::cancel_run(db, now, &run))
    }

    fn answer(
        &self,
        action: ActionId,
        answers: Map,
    ) -> BoxFuture<'_, Result<AnswerOutcome, StoreError>> {
        self.change(move |db, now| input::answer(db, now, &action, &answers))
    }

    fn wake(&self, action: ActionId) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.change(move |db, now| input::wake(db, now, &action))
    }

    fn wake_remote(
        &self,
        registration: RegistrationId,
        kind: RemoteKind,
        id: String,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.change(move |db, now| input::wake_remote(db, now, &registration, kind, &id))
    }

    fn put_registration(
        &self,
        registration: Registration,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        self.change(move |db, _| registrations::put(db, &registration))
    }

    fn enable_registration(
        &self,
        id: RegistrationId,
        enabled: bool,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.change(move |db, _| registrations::enable(db, &id, enabled))
    }

    fn remove_registration(&self, id: RegistrationId) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.change(move |db, _| registrations::remove(db, &id))
    }

    fn registrations(
        &self,
        owner: Option<OwnerId>,
    ) -> BoxFuture<'_, Result<Vec<Registration>, StoreError>> {
        self.read(move |db, _| registrations::list(db, owner.as_ref()))
    }
}

#[cfg(test)]
mod tests;
