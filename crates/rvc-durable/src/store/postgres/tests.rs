//! What only this engine does. Needs a cluster: the one beside the tests, or one of their own.
#![allow(clippy::unwrap_used)]

mod cuts;
mod opening;
mod outages;
mod pace;
mod replicas;

use std::path::PathBuf;

use rvc_test::postgres::Cluster;
use rvc_test::{FaultProxy, Target};
use tokio_postgres::NoTls;
use uuid::Uuid;

use super::*;
use crate::TransportKind;
use crate::linkage::RemoteTask;
use crate::phase::Phase;
use crate::plan::{self, Jitter, Settings, StartAnswer};
use crate::store::{Claimed, LeaseOwner};

/// A database of its own for each test.
struct Database {
    name: String,
    folder: PathBuf,
    /// Ends with the test that started it.
    cluster: Option<Cluster>,
}

impl Database {
    async fn create() -> Self {
        match std::env::var_os("RVC_TEST_POSTGRES") {
            Some(folder) => Self::at(folder.into(), None).await,
            None => Self::alone().await,
        }
    }

    /// On a cluster that a test may stop.
    async fn alone() -> Self {
        let cluster = Cluster::start().unwrap();
        let folder = cluster.socket_folder().to_owned();
        Self::at(folder, Some(cluster)).await
    }

    async fn at(folder: PathBuf, cluster: Option<Cluster>) -> Self {
        let name = format!("t{}", Uuid::new_v4().simple());
        let database = Self {
            name: "postgres".into(),
            folder,
            cluster,
        };
        let create = format!("CREATE DATABASE {name}");
        database
            .client()
            .await
            .batch_execute(&create)
            .await
            .unwrap();
        Self { name, ..database }
    }

    fn url(&self) -> String {
        let (name, folder) = (&self.name, self.folder.display());
        format!("postgres:///{name}?user=postgres&host={folder}")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    async fn store(&self) -> PostgresStore {
        PostgresStore::open(&self.url()).await.unwrap()
    }

    /// A way to it that a test may disturb, and a URL that leads over it.
    fn proxied(&self) -> (FaultProxy, String) {
        let proxy = FaultProxy::start(Target::Unix(self.socket())).unwrap();
        let url = format!("postgres://postgres@{}/{}", proxy.address(), self.name);
        (proxy, url)
    }

    /// Past the store.
    async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn submission(action: &str) -> Submission {
    Submission::new(id(action), id("robot"), "navigate_to")
        .input(crate::submission::InputHandling::Surface)
}

fn robot() -> Registration {
    Registration {
        id: id("robot"),
        owner: OwnerId::local(),
        endpoint: id("http://127.0.0.1:1/mcp"),
        transport: TransportKind::StreamableHttp,
        enabled: true,
    }
}

async fn submit(store: &PostgresStore, action: &str) {
    let submitted = store.submit(submission(action), HostKind::Ledger).await;
    assert_eq!(submitted, Ok(Submitted::New));
}

async fn claim_within(store: &PostgresStore, limit: u32, lease: Duration) -> Vec<Claimed> {
    let request = ClaimRequest::new(LeaseOwner::draw(), limit, lease);
    store.claim(request).await.unwrap().rows
}

async fn claim(store: &PostgresStore) -> Claimed {
    let lease = Duration::from_secs(30);
    claim_within(store, 1, lease).await.pop().unwrap()
}

async fn row(store: &PostgresStore, action: &str) -> Linkage {
    store.row(id(action)).await.unwrap().unwrap()
}

fn remote(id: &str) -> RemoteTask {
    RemoteTask {
        kind: RemoteKind::Mcp,
        id: id.into(),
        created_at: "t0".into(),
        status: "working".into(),
        ended: false,
        progress: None,
        ttl: None,
        poll_interval: None,
    }
}

/// The write that begins a start, and the row after it.
fn begin(claimed: &Claimed) -> (Write, Linkage) {
    let sending = plan::begun(claimed.row.clone(), claimed.row.created_at);
    let write = Write::new(claimed.claim.clone(), Phase::Intent, sending.clone());
    (write.keep_lease(), sending)
}

fn answered(claimed: &Claimed, sending: Linkage, answer: StartAnswer) -> Write {
    let now = sending.created_at;
    let after = plan::started(sending, answer, &Settings::default(), now, Jitter::NONE);
    Write::new(claimed.claim.clone(), Phase::Sending, after)
}

/// Brings an action to `working`, or to `input_required` with a request named `k`.
async fn work(store: &PostgresStore, action: &str, asks: bool) -> Claimed {
    submit(store, action).await;
    let claimed = claim(store).await;
    let (begin, sending) = begin(&claimed);
    assert_eq!(store.write(begin).await, Ok(Written::Applied));
    let mut link = answered(&claimed, sending, StartAnswer::Task(remote(action)));
    if asks {
        link.row.phase = Phase::InputRequired;
        let requests = serde_json::json!({"k": {}});
        link.row.input_requests = requests.as_object().cloned().unwrap();
    }
    assert_eq!(store.write(link).await, Ok(Written::Applied));
    claimed
}
