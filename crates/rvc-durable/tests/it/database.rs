//! `PostgreSQL` databases that tests have to themselves.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use rvc_durable::store::PostgresStore;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// A database with the current schema and nothing in it. It is dropped with this.
pub(crate) struct Database {
    name: String,
}

impl Database {
    /// Creates a database where the tests run beside a cluster.
    pub(crate) fn where_there_is_a_cluster() -> Option<Self> {
        folder().is_some().then(|| {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("test_{}_{count}", std::process::id());
            let sql = format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}");
            elsewhere(async move {
                let admin = template().await;
                admin.batch_execute(&sql).await.unwrap();
            });
            Self { name }
        })
    }

    /// Creates a database.
    ///
    /// # Panics
    ///
    /// Without a cluster.
    pub(crate) fn create() -> Self {
        Self::where_there_is_a_cluster().expect("run `cargo xtask ci postgres`")
    }

    pub(crate) fn url(&self) -> String {
        url(&self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        elsewhere(async move {
            let admin = connect(&url("postgres")).await;
            // The cluster may have ended before it; then so has the database.
            let _ = admin.batch_execute(&sql).await;
        });
    }
}

/// Does `work` on a runtime with real time, and blocks until it is done.
///
/// Under a paused clock, time jumps while a socket is waited for. Here nothing waits.
pub(crate) fn elsewhere<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    });
    let (sender, answer) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        let _ = sender.send(work.await);
    });
    answer.recv().expect("the work panicked")
}

/// The database that all others are copies of: migrating each would take longer.
const TEMPLATE: &str = "test_template";

/// A connection for administration, once the template is there.
async fn template() -> Client {
    let admin = connect(&url("postgres")).await;
    let lock = "SELECT pg_advisory_lock(1)";
    admin.batch_execute(lock).await.unwrap();
    let sql = "SELECT 1 FROM pg_database WHERE datname = $1";
    if admin.query_opt(sql, &[&TEMPLATE]).await.unwrap().is_none() {
        let sql = format!("CREATE DATABASE {TEMPLATE}");
        admin.batch_execute(&sql).await.unwrap();
        drop(PostgresStore::open(&url(TEMPLATE)).await.unwrap());
    }
    let unlock = "SELECT pg_advisory_unlock(1)";
    admin.batch_execute(unlock).await.unwrap();
    admin
}

/// A connection for SQL of a test's own, driven on the runtime of the caller.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Runs SQL on a connection of its own.
pub(crate) async fn execute(url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    connect(url).await.batch_execute(sql).await
}

fn url(database: &str) -> String {
    let folder = folder().expect("run `cargo xtask ci postgres`");
    format!("postgresql:///{database}?host={folder}&user=postgres")
}

/// The folder of the cluster's socket.
pub(crate) fn folder() -> Option<String> {
    std::env::var("RVC_TEST_POSTGRES").ok()
}
