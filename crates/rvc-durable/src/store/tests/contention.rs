//! Few connections, and transactions of others that take long.

use futures_util::future::join_all;
use tokio_postgres::Client;

use super::database::{Database, connect};
use super::*;
use crate::outcome::Outcome;
use crate::phase::Phase;

async fn open(database: &Database, connections: usize) -> PostgresStore {
    let options = PostgresOptions::url(&database.url()).unwrap();
    options.connections(connections).open().await.unwrap()
}

/// Somebody else's transaction, which is open until it is committed.
async fn transaction(database: &Database, sql: &str) -> Client {
    let client = connect(&database.url()).await;
    client
        .batch_execute(&format!("BEGIN; {sql}"))
        .await
        .unwrap();
    client
}

/// Leases what is due and ends it, until `count` actions have ended.
async fn work(store: &PostgresStore, count: usize) {
    let work = async {
        let mut done = 0;
        while done < count {
            let claimed = claim(store, 8).await;
            let writes = claimed.into_iter().map(|claimed| async move {
                let now = store.now().await.unwrap();
                let outcome = Outcome::failed(crate::ErrorCode::remote("X"), "x");
                let row = plan::settled(claimed.row, outcome, now);
                store
                    .write(Write::new(claimed.claim, Phase::Intent, row))
                    .await
            });
            for written in join_all(writes).await {
                assert_eq!(written, Ok(Written::Applied));
                done += 1;
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), work).await;
    assert!(ended.is_ok(), "it stands still");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn sixty_four_steps_at_once_over_four_connections_all_end() {
    let database = Database::create();
    let store = open(&database, 4).await;
    let steps = (0..64).map(|index| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..4 {
                submit(
                    &store,
                    &format!("a{index}-{round}"),
                    &format!("robot{}", index % 5),
                )
                .await;
                let claimed = claim(&store, 1).await;
                for claimed in claimed {
                    let now = store.now().await.unwrap();
                    let name = format!("t-{}", claimed.row.action);
                    let claim = claimed.claim.clone();
                    link(&store, claimed, &name, now).await;
                    assert_eq!(store.renew(claim, Duration::ZERO).await, Ok(Renewed::Lost));
                }
            }
        })
    });
    let all = tokio::time::timeout(Duration::from_secs(60), join_all(steps)).await;

    for step in all.expect("the steps stand still") {
        step.unwrap();
    }
    assert_eq!(store.rows(Filter::all()).await.unwrap().len(), 256);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn rows_that_somebody_locks_are_passed_over_and_come_later() {
    let database = Database::create();
    let store = open(&database, 4).await;
    for index in 0..20 {
        submit(&store, &format!("a{index:02}"), "robot").await;
    }
    let sql = "SELECT * FROM mcp_action_tasks WHERE action_id < 'a04' FOR UPDATE";
    let other = transaction(&database, sql).await;

    work(&store, 16).await;

    assert_eq!(claim(&store, 8).await, []);
    other.batch_execute("COMMIT").await.unwrap();
    work(&store, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_snapshot_or_a_dump_that_stays_open_stops_nothing() {
    for sql in [
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT * FROM mcp_action_tasks",
        // As pg_dump has it.
        "LOCK TABLE runs, actions, mcp_action_tasks, mcp_action_outcomes IN ACCESS SHARE MODE",
        "LOCK TABLE mcp_action_tasks IN ROW EXCLUSIVE MODE",
    ] {
        let database = Database::create();
        let store = open(&database, 4).await;
        submit(&store, "a", "robot").await;
        let other = transaction(&database, sql).await;

        submit(&store, "b", "robot").await;
        work(&store, 2).await;
        let again = open(&database, 1).await;
        submit(&again, "c", "robot").await;
        store.cancel_action("c".parse().unwrap()).await.unwrap();
        assert_eq!(store.census().await.unwrap().open, 0);

        other.batch_execute("COMMIT").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn callers_that_wait_for_a_locked_row_do_not_stop_the_rest_for_ever() {
    let database = Database::create();
    let store = open(&database, 4).await;
    submit(&store, "locked", "robot").await;
    for index in 0..20 {
        submit(&store, &format!("a{index:02}"), "robot").await;
    }
    let sql = "SELECT * FROM mcp_action_tasks WHERE action_id = 'locked' FOR UPDATE";
    let other = transaction(&database, sql).await;
    let waiting: Vec<_> = (0..16)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.cancel_action("locked".parse().unwrap()).await })
        })
        .collect();

    work(&store, 20).await;

    other.batch_execute("COMMIT").await.unwrap();
    for waiting in waiting {
        match waiting.await.unwrap() {
            Ok(_) => {}
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    }
    store
        .cancel_action("locked".parse().unwrap())
        .await
        .unwrap();
    let row = store.row("locked".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Cancelled);
}
