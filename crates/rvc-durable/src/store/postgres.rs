//! The store on `PostgreSQL`: one database for several replicas.

mod claim;
mod database;
mod failure;
mod hosts;
mod input;
mod ledger;
mod listener;
mod migration;
mod options;
mod registrations;
mod rows;
mod values;
mod write;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rvc_wire::Map;
use tokio::sync::broadcast;

use self::database::{Database, Scope, Work};
use self::ledger::RunCancel;
use self::listener::Listener;
pub use self::options::PostgresOptions;
use self::registrations::Removal;
use super::{
    AnswerOutcome, CancelOutcome, Census, Claim, ClaimRequest, Claims, Filter, News, Renewed,
    Store, StoreError, Submitted, Write, Written,
};
use crate::linkage::{HostKind, Linkage, RemoteKind};
use crate::moment::Moment;
use crate::name::{ActionId, OwnerId, RegistrationId, RunId};
use crate::registration::Registration;
use crate::submission::Submission;

/// Linkages, ledger and registrations in one `PostgreSQL` database, for any number of replicas.
///
/// ```text
/// claim     one statement: due rows are locked with SKIP LOCKED and leased
/// write     one statement, or a transaction where it brings an outcome
/// the rest  short transactions; each operation holds one connection, for moments
/// ```
///
/// 1. The server's clock decides about leases and due times.
/// 2. What returned `Ok` is on stable storage, whatever the server's default for
///    `synchronous_commit` is. Excepted are the bookkeeping of polls, and leases that are
///    prolonged or given back: losing those costs a poll.
/// 3. An operation whose commit was not answered is repeated by the store itself, and is not
///    done twice: a [`Write`] is known by its id, most others change nothing the second time.
///    The rows of a claim that was repeated wait out a lease, and a registration is put again.
/// 4. While the server is away, operations fail with [`StoreError::Unreachable`].
/// 5. What is committed is told to the other replicas by `NOTIFY`; what is lost of that costs
///    them a poll interval.
///
/// Connections keep state (settings, prepared statements, `LISTEN`): a pooler in between has to
/// keep one server connection per client connection.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

struct Shared {
    database: Database,
    listener: Listener,
}

impl PostgresStore {
    /// Opens a database with everything at its default.
    ///
    /// # Errors
    ///
    /// See [`PostgresOptions::url`] and [`PostgresOptions::open`].
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        PostgresOptions::url(url)?.open().await
    }

    fn new(database: Database, listener: Listener) -> Self {
        Self {
            shared: Arc::new(Shared { database, listener }),
        }
    }

    /// One statement, or some that only read.
    fn state<D, T>(&self, data: D, work: Work<D, T>) -> BoxFuture<'_, Result<T, StoreError>>
    where
        D: Send + Sync + 'static,
        T: Send + 'static,
    {
        Box::pin(async move {
            let database = &self.shared.database;
            database.run(Scope::Statement, &data, work).await
        })
    }

    /// Statements that commit together.
    fn transact<D, T>(&self, data: D, work: Work<D, T>) -> BoxFuture<'_, Result<T, StoreError>>
    where
        D: Send + Sync + 'static,
        T: Send + 'static,
    {
        Box::pin(async move {
            let database = &self.shared.database;
            database.run(Scope::Transaction, &data, work).await
        })
    }
}

impl Store for PostgresStore {
    fn now(&self) -> BoxFuture<'_, Result<Moment, StoreError>> {
        self.state((), rows::now)
    }

    fn submit(
        &self,
        submission: Submission,
        host: HostKind,
    ) -> BoxFuture<'_, Result<Submitted, StoreError>> {
        self.transact((submission, host), ledger::submit)
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Claims, StoreError>> {
        self.state(request, claim::claim)
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        Box::pin(async move { write::write(&self.shared.database, &write).await })
    }

    fn renew(&self, claim: Claim, lease: Duration) -> BoxFuture<'_, Result<Renewed, StoreError>> {
        self.state((claim, lease), claim::renew)
    }

    fn release(&self, claim: Claim) -> BoxFuture<'_, Result<(), StoreError>> {
        self.state(claim, claim::release)
    }

    fn row(&self, action: ActionId) -> BoxFuture<'_, Result<Option<Linkage>, StoreError>> {
        self.state(action, rows::row)
    }

    fn rows(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Linkage>, StoreError>> {
        self.state(filter, rows::list)
    }

    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>> {
        self.state((), rows::census)
    }

    fn cancel_action(&self, action: ActionId) -> BoxFuture<'_, Result<CancelOutcome, StoreError>> {
        self.transact(action, ledger::cancel_action)
    }

    fn cancel_run(&self, run: RunId) -> BoxFuture<'_, Result<Option<Vec<ActionId>>, StoreError>> {
        self.transact(RunCancel::new(run), ledger::cancel_run)
    }

    fn answer(
        &self,
        action: ActionId,
        answers: Map,
    ) -> BoxFuture<'_, Result<AnswerOutcome, StoreError>> {
        self.transact((action, answers), input::answer)
    }

    fn wake(&self, action: ActionId) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.state(action, input::wake)
    }

    fn wake_remote(
        &self,
        registration: RegistrationId,
        kind: RemoteKind,
        id: String,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.state((registration, kind, id), input::wake_remote)
    }

    fn put_registration(
        &self,
        registration: Registration,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        self.state(registration, registrations::put)
    }

    fn enable_registration(
        &self,
        id: RegistrationId,
        enabled: bool,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.state((id, enabled), registrations::enable)
    }

    fn remove_registration(&self, id: RegistrationId) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.transact(Removal::new(id), registrations::remove)
    }

    fn registrations(
        &self,
        owner: Option<OwnerId>,
    ) -> BoxFuture<'_, Result<Vec<Registration>, StoreError>> {
        self.state((owner,), registrations::list)
    }

    fn news(&self) -> Option<broadcast::Receiver<News>> {
        Some(self.shared.listener.subscribe())
    }
}

#[cfg(test)]
mod tests;
