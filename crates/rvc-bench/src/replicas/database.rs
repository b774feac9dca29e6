use std::fmt;
use std::io;

use anyhow::Context;
use rvc_durable::store::{PostgresOptions, PostgresStore};
use rvc_test::postgres::Cluster;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// A cluster that writes to the disk, with linked tasks in the store's database. It goes when it
/// is dropped.
pub(crate) struct Database {
    cluster: Cluster,
    runtime: Runtime,
}

impl Database {
    /// `rows` working tasks of `registrations` servers. `due` is SQL for the milliseconds until
    /// row `i` is due.
    pub(crate) fn new(rows: u32, registrations: u32, due: &str) -> anyhow::Result<Self> {
        let cluster = Cluster::start_durable().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NotInstalled(error).into(),
            _ => anyhow::Error::from(error),
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let database = Self { cluster, runtime };
        database.block_on(async {
            drop(database.store(1).await?);
            let client = database.connect().await?;
            client
                .batch_execute(&fill(rows, registrations, due))
                .await?;
            database.settle(&client).await
        })?;
        Ok(database)
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// A store with a pool of its own.
    pub(crate) async fn store(&self, connections: usize) -> anyhow::Result<PostgresStore> {
        let options = PostgresOptions::url(&self.url())?.connections(connections);
        Ok(options.open().await?)
    }

    /// A connection beside the store.
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// What a database in use has done from time to time, so that no run has to.
    pub(crate) async fn settle(&self, client: &Client) -> anyhow::Result<()> {
        for sql in ["VACUUM ANALYZE", "CHECKPOINT"] {
            client.batch_execute(sql).await.context(sql)?;
        }
        Ok(())
    }

    pub(crate) fn url(&self) -> String {
        self.cluster.url("postgres")
    }
}

/// There is no `PostgreSQL` on this machine.
#[derive(Debug)]
pub(crate) struct NotInstalled(io::Error);

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NotInstalled {}

fn fill(rows: u32, registrations: u32, due: &str) -> String {
    format!(
        "SET synchronous_commit = off;
         INSERT INTO registrations
         SELECT 'robot-' || i, 'local', 'http://robot/mcp', 'streamable-http', true
             FROM generate_series(0, {registrations} - 1) AS i;
         INSERT INTO runs (run_id, owner_id, created_at) VALUES ('run', 'local', 0);
         INSERT INTO mcp_action_tasks (action_id, run_id, owner_id, registration_id, host,
             tool, arguments, request_hash, policy, surfaces_input, created_at, phase, starts,
             sent_at, kind, remote_task_id, remote_created_at, remote_task_status, progress,
             remote_ttl_ms, poll_interval_ms, next_due, updated_at)
         SELECT 'action-' || i, 'run', 'local', 'robot-' || i % {registrations}, 'ledger',
             'navigate_to', '{{\"to\":\"kitchen\"}}', repeat('0', 64), 'at_most_once', false, 0,
             'working', 1, store_now(NULL), 'mcp', 'task-' || i, '2026-01-01T00:00:00Z',
             'working', 'driving', 86400000, 60000, store_now(NULL) + {due}, 0
             FROM generate_series(1, {rows}) AS i;"
    )
}
