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
                    if claimed.row.phase != Phase::Intent {
                        // It came due again after it was linked.
                        store.release(claimed.claim).await.unwrap();
                        continue;
                    }
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
async fn what_was_committed_while_a_row_was_waited_for_is_seen_on_a_young_connection() {
    let database = Database::create();
    let setting = open(&database, 1).await;
    for cancels in [true, false] {
        let action = if cancels { "cancelled" } else { "ended" };
        submit(&setting, action, "robot").await;
        let claimed = claim(&setting, 1).await.pop().unwrap();
        // It has read a row before, and has locked none.
        let store = open(&database, 1).await;
        store.row(action.parse().unwrap()).await.unwrap();
        let sql = format!("SELECT * FROM mcp_action_tasks WHERE action_id = '{action}' FOR UPDATE");
        let other = transaction(&database, &sql).await;

        let late = tokio::spawn(async move {
            if cancels {
                let cancel = store.cancel_action(action.parse().unwrap()).await;
                return matches!(cancel.unwrap(), CancelOutcome::Ended(_));
            }
            let now = store.now().await.unwrap();
            let outcome = Outcome::failed(crate::ErrorCode::remote("late"), "late");
            let row = plan::settled(claimed.row, outcome, now);
            let write = Write::new(claimed.claim, Phase::Intent, row);
            matches!(store.write(write).await.unwrap(), Written::Overtaken(_))
        });
        let waits = "SELECT FROM pg_stat_activity WHERE datname = current_database() \
            AND wait_event_type = 'Lock'";
        while other.query(waits, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let end = format!(
            "INSERT INTO mcp_action_outcomes VALUES ('{action}', 'failed', 'X', 'x', NULL, NULL, 1);
             UPDATE actions SET state = 'failed', finished_at = 1 WHERE action_id = '{action}';
             UPDATE mcp_action_tasks SET phase = 'failed', next_due = NULL
             WHERE action_id = '{action}'; COMMIT"
        );
        other.batch_execute(&end).await.unwrap();

        assert!(late.await.unwrap(), "{action}");
    }
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
