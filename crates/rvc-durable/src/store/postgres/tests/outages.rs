use futures_util::future::join_all;

use super::*;

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn while_the_server_is_away_operations_fail_and_after_it_is_back_they_go_on() {
    let database = Database::alone().await;
    let cluster = database.cluster.as_ref().unwrap();
    let options = PostgresOptions::url(&database.url()).unwrap();
    let store = options.patience(Duration::from_secs(2)).open();
    let store = store.await.unwrap();
    submit(&store, "a").await;
    let claimed = claim(&store).await;
    let (write, _) = begin(&claimed);

    cluster.crash().unwrap();
    let (written, read, counted, cancelled) = tokio::join!(
        store.write(write.clone()),
        store.row(id("a")),
        store.census(),
        store.cancel_action(id("a")),
    );
    let errors = [
        written.unwrap_err(),
        read.unwrap_err(),
        counted.unwrap_err(),
        cancelled.unwrap_err(),
    ];
    for error in errors {
        let away = matches!(error, StoreError::Unreachable { .. });
        assert!(away && error.is_retryable(), "{error:?}");
    }
    cluster.resume().unwrap();

    assert_eq!(row(&store, "a").await.phase, Phase::Intent);
    assert_eq!(store.write(write).await, Ok(Written::Applied));
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_restart_shorter_than_the_patience_is_not_noticed() {
    let database = Database::alone().await;
    let cluster = database.cluster.as_ref().unwrap();
    let options = PostgresOptions::url(&database.url()).unwrap();
    let store = options.patience(Duration::from_secs(30)).open();
    let store = store.await.unwrap();
    let store = &store;

    cluster.crash().unwrap();
    let submissions = join_all((0..16).map(|n| submit(store, format!("a{n}").leak())));
    let restart = async {
        tokio::task::yield_now().await;
        cluster.resume().unwrap();
    };
    tokio::join!(submissions, restart);

    assert_eq!(store.census().await.unwrap().open, 16);
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_dropped_operation_leaves_no_connection_inside_a_transaction() {
    let database = Database::create().await;
    let options = PostgresOptions::url(&database.url()).unwrap();
    let store = options.connections(1).open().await.unwrap();
    let client = database.client().await;

    for round in 0..40_u64 {
        let name = format!("a{round}");
        let operation = store.submit(submission(&name), HostKind::Ledger);
        // Somewhere between its statements.
        let _ = tokio::time::timeout(Duration::from_micros(150 * round), operation).await;
    }

    // Whoever comes next begins in a connection of its own or in one that is at rest.
    submit(&store, "last").await;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
        AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'";
    let stuck: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(stuck, 0);
}
