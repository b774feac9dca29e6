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
async fn after_a_failover_to_the_standby_work_goes_on_there() {
    let database = Database::alone().await;
    let primary = database.cluster.as_ref().unwrap();
    let standby = primary.standby().unwrap();
    // The standby first: it is read only, and passed by.
    let both = format!(
        "postgres:///{}?user=postgres&host={}&host={}&target_session_attrs=read-write",
        database.name,
        standby.socket_folder().display(),
        primary.socket_folder().display(),
    );
    let options = PostgresOptions::url(&both).unwrap();
    let store = options.patience(Duration::from_secs(10)).open();
    let store = store.await.unwrap();
    submit(&store, "a").await;
    let claimed = claim(&store).await;
    let (write, sending) = begin(&claimed);
    assert_eq!(store.write(write).await, Ok(Written::Applied));
    let sent = primary.query("postgres", "SELECT pg_current_wal_lsn()");
    let has_it = format!(
        "SELECT pg_last_wal_replay_lsn() >= '{}'",
        sent.unwrap().trim()
    );
    while standby.query("postgres", &has_it).unwrap().trim() != "t" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    primary.crash().unwrap();
    standby.promote().unwrap();

    let linked = answered(&claimed, sending, StartAnswer::Task(remote("t-1")));
    assert_eq!(store.write(linked).await, Ok(Written::Applied));
    assert_eq!(row(&store, "a").await.phase, Phase::Working);
    submit(&store, "b").await;
    assert_eq!(claim(&store).await.row.action, id("b"));
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_host_that_takes_connections_and_says_nothing_is_passed_by() {
    let database = Database::create().await;
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, url) = database.proxied();
    let url = url.replace('@', &format!("@{},", mute.local_addr().unwrap()));
    let options = PostgresOptions::url(&url).unwrap();
    let store = options.patience(Duration::from_secs(6)).open();
    let store = store.await.unwrap();

    // The connections are made again, and first to who served last.
    server.cut();
    submit(&store, "a").await;

    assert_eq!(store.census().await.unwrap().open, 1);
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_run_of_thousands_is_cancelled_in_a_few_statements() {
    let database = Database::create().await;
    let store = database.store().await;
    submit(&store, "first").await;
    let run = row(&store, "first").await.run;
    let copies = "INSERT INTO actions (action_id, run_id) \
            SELECT action_id || n, run_id FROM actions, generate_series(1, 5000) AS n; \
        INSERT INTO mcp_action_tasks (action_id, run_id, owner_id, registration_id, host, tool, \
            arguments, request_hash, policy, surfaces_input, created_at, next_due, updated_at) \
        SELECT action_id || n, run_id, owner_id, registration_id, host, tool, arguments, \
            request_hash, policy, surfaces_input, created_at, next_due, updated_at \
        FROM mcp_action_tasks, generate_series(1, 5000) AS n";
    database.client().await.batch_execute(copies).await.unwrap();
    // Each round trip would cost as much.
    let (proxy, url) = database.proxied();
    let options = PostgresOptions::url(&url).unwrap();
    let store = options.patience(Duration::from_secs(60)).open();
    let store = store.await.unwrap();
    proxy.delay(Duration::from_millis(10));

    let cancelled = store.cancel_run(run).await.unwrap().unwrap();

    assert_eq!(cancelled.len(), 5_001);
    assert_eq!(store.census().await.unwrap().open, 0);
    let last = row(&store, "first5000").await;
    assert_eq!(last.outcome.unwrap().phase, Phase::Cancelled);
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
