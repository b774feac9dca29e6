//! The store under test: `SQLite`, or `PostgreSQL` where the tests run beside a cluster.

use std::sync::Arc;
#[cfg(feature = "postgres")]
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use rvc_durable::store::{
    AnswerOutcome, CancelOutcome, Census, Claim, ClaimRequest, Claims, Filter, Renewed,
    SqliteOptions, SqliteStore, Store, StoreError, Submitted, Write, Written,
};
use rvc_durable::{
    ActionId, HostKind, Linkage, Moment, OwnerId, Registration, RegistrationId, RemoteKind, RunId,
    Submission,
};
use rvc_wire::Map;
use tempfile::TempDir;

#[cfg(feature = "postgres")]
use super::database::{Database, elsewhere, execute};

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A store whose operations are done when they return: also under a paused clock.
#[derive(Clone)]
pub(crate) struct TestStore {
    inner: Arc<dyn Store>,
    _folder: Option<Arc<TempDir>>,
    #[cfg(feature = "postgres")]
    server: Option<Arc<Server>>,
}

/// What belongs to a store on a server, besides the store. Dropped after it.
#[cfg(feature = "postgres")]
struct Server {
    clock: Box<dyn Fn() -> Moment + Send + Sync>,
    /// What the clock said at the last operation: it is the caller's, and the work is done
    /// on another thread.
    now: Arc<AtomicI64>,
    _database: Database,
}

impl TestStore {
    /// An empty store with a clock.
    pub(crate) fn new(clock: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        #[cfg(feature = "postgres")]
        if let Some(database) = Database::where_there_is_a_cluster() {
            return Self::on(database, clock);
        }
        Self::sqlite(SqliteOptions::memory().inline().clock(clock))
    }

    /// A `SQLite` store.
    pub(crate) fn sqlite(options: SqliteOptions) -> Self {
        Self {
            inner: Arc::new(options.open().unwrap()),
            _folder: None,
            #[cfg(feature = "postgres")]
            server: None,
        }
    }

    /// A store on the system's clock, after `sql` has filled it.
    pub(crate) fn filled(sql: &str) -> Self {
        #[cfg(feature = "postgres")]
        if let Some(database) = Database::where_there_is_a_cluster() {
            let (url, sql) = (database.url(), sql.to_owned());
            elsewhere(async move { execute(&url, &sql).await.unwrap() });
            return Self::on(database, wall_clock);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("durable.db");
        drop(SqliteStore::open(&path).unwrap());
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch(sql).unwrap();
        Self {
            _folder: Some(Arc::new(folder)),
            ..Self::sqlite(SqliteOptions::file(path))
        }
    }

    /// A store on a database of the cluster.
    #[cfg(feature = "postgres")]
    pub(crate) fn on(
        database: Database,
        clock: impl Fn() -> Moment + Send + Sync + 'static,
    ) -> Self {
        use rvc_durable::store::PostgresOptions;

        let now = Arc::new(AtomicI64::new(clock().unix_ms()));
        let read = now.clone();
        let options = PostgresOptions::url(&database.url())
            .unwrap()
            .clock(move || Moment::from_unix_ms(read.load(Ordering::SeqCst)));
        let store = elsewhere(async move { options.open().await.unwrap() });
        Self {
            inner: Arc::new(store),
            _folder: None,
            server: Some(Arc::new(Server {
                clock: Box::new(clock),
                now,
                _database: database,
            })),
        }
    }

    fn run<'a, T: Send + 'static>(
        &'a self,
        work: impl for<'s> FnOnce(&'s dyn Store) -> Answer<'s, T> + Send + 'static,
    ) -> Answer<'a, T> {
        #[cfg(feature = "postgres")]
        if let Some(server) = &self.server {
            let now = (server.clock)().unix_ms();
            server.now.store(now, Ordering::SeqCst);
            let store = self.inner.clone();
            let answer = elsewhere(async move { work(&*store).await });
            return Box::pin(std::future::ready(answer));
        }
        work(&*self.inner)
    }
}

/// Whether the stores of this run are on a server: what is tried often is tried less often.
pub(crate) fn is_on_a_server() -> bool {
    #[cfg(feature = "postgres")]
    return super::database::folder().is_some();
    #[cfg(not(feature = "postgres"))]
    false
}

/// The system's clock.
pub(crate) fn wall_clock() -> Moment {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    Moment::from_unix_ms(0).after(since)
}

impl Store for TestStore {
    fn now(&self) -> Answer<'_, Moment> {
        self.run(|store| store.now())
    }
    fn submit(&self, submission: Submission, host: HostKind) -> Answer<'_, Submitted> {
        self.run(move |store| store.submit(submission, host))
    }
    fn claim(&self, request: ClaimRequest) -> Answer<'_, Claims> {
        self.run(move |store| store.claim(request))
    }
    fn write(&self, write: Write) -> Answer<'_, Written> {
        self.run(move |store| store.write(write))
    }
    fn renew(&self, claim: Claim, lease: Duration) -> Answer<'_, Renewed> {
        self.run(move |store| store.renew(claim, lease))
    }
    fn release(&self, claim: Claim) -> Answer<'_, ()> {
        self.run(move |store| store.release(claim))
    }
    fn row(&self, action: ActionId) -> Answer<'_, Option<Linkage>> {
        self.run(move |store| store.row(action))
    }
    fn rows(&self, filter: Filter) -> Answer<'_, Vec<Linkage>> {
        self.run(move |store| store.rows(filter))
    }
    fn census(&self) -> Answer<'_, Census> {
        self.run(|store| store.census())
    }
    fn cancel_action(&self, action: ActionId) -> Answer<'_, CancelOutcome> {
        self.run(move |store| store.cancel_action(action))
    }
    fn cancel_run(&self, run: RunId) -> Answer<'_, Option<Vec<ActionId>>> {
        self.run(move |store| store.cancel_run(run))
    }
    fn answer(&self, action: ActionId, answers: Map) -> Answer<'_, AnswerOutcome> {
        self.run(move |store| store.answer(action, answers))
    }
    fn wake(&self, action: ActionId) -> Answer<'_, bool> {
        self.run(move |store| store.wake(action))
    }
    fn wake_remote(
        &self,
        registration: RegistrationId,
        kind: RemoteKind,
        id: String,
    ) -> Answer<'_, u64> {
        self.run(move |store| store.wake_remote(registration, kind, id))
    }
    fn put_registration(&self, registration: Registration) -> Answer<'_, ()> {
        self.run(move |store| store.put_registration(registration))
    }
    fn enable_registration(&self, id: RegistrationId, enabled: bool) -> Answer<'_, bool> {
        self.run(move |store| store.enable_registration(id, enabled))
    }
    fn remove_registration(&self, id: RegistrationId) -> Answer<'_, bool> {
        self.run(move |store| store.remove_registration(id))
    }
    fn registrations(&self, owner: Option<OwnerId>) -> Answer<'_, Vec<Registration>> {
        self.run(move |store| store.registrations(owner))
    }
}
