//! Supervisors on a real server and a real clock.

use std::collections::HashMap;
use std::time::Duration;

use rvc_durable::plan::Settings;
use rvc_durable::store::{PostgresOptions, PostgresStore, Store};
use rvc_durable::{Durable, Phase, SupervisorOptions};
use serde_json::json;

use crate::database::Database;
use crate::peer::{Peer, Reply};
use crate::world::{id, registration, submission};

async fn store(database: &Database) -> PostgresStore {
    let options = PostgresOptions::url(&database.url()).unwrap();
    options.connections(4).open().await.unwrap()
}

/// A server that follows every task to its end at the third poll.
fn following() -> Peer {
    let mut polls = HashMap::<String, u32>::new();
    Peer::new(move |call| match call.method.as_str() {
        "tools/call" => Reply::handle(&format!("t-{}", call.params["arguments"]["n"])),
        "tasks/get" => {
            let id = call.params["taskId"].as_str().unwrap().to_owned();
            let polls = polls.entry(id.clone()).or_default();
            *polls += 1;
            if *polls < 3 {
                Reply::state(&id, "working", &json!({"pollIntervalMs": 10}))
            } else {
                Reply::completed(&id, &id)
            }
        }
        _ => Reply::acknowledged(),
    })
}

fn options() -> SupervisorOptions {
    let mut settings = Settings::default();
    settings.min_poll_interval = Duration::from_millis(5);
    settings.max_poll_interval = Duration::from_millis(50);
    SupervisorOptions::new()
        .settings(settings)
        .concurrency(64, 64)
        .tick(Duration::from_millis(50))
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_cancel_on_another_replica_reaches_a_start_that_blocks_before_its_lease_is_prolonged() {
    let database = Database::create();
    let (here, there) = (store(&database).await, store(&database).await);
    here.put_registration(registration()).await.unwrap();
    let peer = Peer::new(|_| Reply::Silence);
    let mut settings = Settings::default();
    settings.request_timeout = Duration::from_millis(50);
    let options = options().settings(settings);
    let supervising = options.clone().lease(Duration::from_secs(3_600));
    let supervisor = Durable::new(there, peer.clone(), supervising);
    supervisor.supervise();
    let host = Durable::new(here, peer.clone(), options);
    host.submit(submission("a")).await.unwrap();
    let told = async |method: &str| {
        let wait = async {
            while peer.count(method) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(60), wait).await;
        told.unwrap_or_else(|_| panic!("the server hears no {method}"));
    };
    told("tools/call").await;

    host.cancel_action(&id("a")).await.unwrap();

    told("notifications/cancelled").await;
    supervisor.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn two_supervisors_with_64_steps_at_once_over_4_connections_each_start_everything_once() {
    let database = Database::create();
    let (one, two) = (store(&database).await, store(&database).await);
    one.put_registration(registration()).await.unwrap();
    let peer = following();
    let first = Durable::new(one.clone(), peer.clone(), options());
    let second = Durable::new(two, peer.clone(), options());
    first.supervise();
    second.supervise();
    for n in 0..256 {
        let arguments = json!({"n": n}).as_object().cloned().unwrap();
        let submission = submission(&format!("a{n}")).arguments(arguments);
        first.submit(submission).await.unwrap();
    }

    let idle = tokio::time::timeout(Duration::from_secs(60), first.idle()).await;

    idle.expect("the steps stand still").unwrap();
    for n in 0..256 {
        let row = one.row(id(&format!("a{n}"))).await.unwrap().unwrap();
        assert_eq!((row.phase, row.starts), (Phase::Completed, 1), "{row:?}");
    }
    assert_eq!(peer.count("tools/call"), 256);
    assert_eq!(peer.count("tasks/cancel"), 0);
    first.close().await;
    second.close().await;
}
