use futures_util::future::join_all;
use tokio::time::timeout;

use super::*;
use crate::remote::{BoxTransport, DialError, Dialer, Token};
use crate::{Durable, SupervisorOptions};

/// Long enough for any machine; nothing here waits for it.
const LONG: Duration = Duration::from_secs(60);

/// Reaches nobody, so that a step is over at once and has counted an error.
struct Nowhere;

impl Dialer for Nowhere {
    fn dial<'a>(
        &'a self,
        _: &'a Registration,
        _: Option<Token>,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>> {
        let reason = "nobody is there".to_owned();
        Box::pin(async move {
            Err(DialError {
                reason,
                retry_after: None,
            })
        })
    }
}

/// Waits until a step was done with an action.
async fn stepped(store: &PostgresStore, action: &str) {
    let step = async {
        while row(store, action).await.trouble.errors == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, step).await.expect("nobody looked");
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn another_replica_looks_at_once_and_hears_of_outcomes() {
    let database = Database::create().await;
    let (here, there) = (database.store().await, database.store().await);
    here.put_registration(robot()).await.unwrap();
    let hour = SupervisorOptions::new().tick(Duration::from_secs(3600));
    let durable = Durable::new(there.clone(), Nowhere, hour.clone());
    durable.supervise();
    // Its first claim is over, and it listens: `Missed` is what it says when it begins to, perhaps
    // after this was told.
    let mut news = there.news().unwrap();
    submit(&here, "first").await;
    stepped(&here, "first").await;
    while !matches!(
        timeout(LONG, news.recv()).await.unwrap(),
        Ok(News::Due | News::Missed)
    ) {}

    submit(&here, "second").await;
    stepped(&here, "second").await;

    // Nobody in this process changes it: the wait ends by news alone.
    let waiting = Durable::new(here.clone(), Nowhere, hour);
    let action = id("second");
    let outcome = waiting.outcome(&action);
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        there.cancel_action(id("second")).await.unwrap()
    };
    let (outcome, cancelled) = tokio::join!(timeout(LONG, outcome), cancel);
    assert_eq!(cancelled, CancelOutcome::Cancelled);
    assert_eq!(outcome.unwrap().unwrap().phase, Phase::Cancelled);
    durable.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_lost_notification_costs_a_tick() {
    let database = Database::create().await;
    let store = database.store().await;
    store.put_registration(robot()).await.unwrap();
    let tick = SupervisorOptions::new().tick(Duration::from_millis(50));
    let durable = Durable::new(store.clone(), Nowhere, tick);
    durable.supervise();
    submit(&store, "a").await;
    stepped(&store, "a").await;

    let sql = "UPDATE mcp_action_tasks SET errors = 0, next_due = 0";
    database.client().await.batch_execute(sql).await.unwrap();

    stepped(&store, "a").await;
    durable.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_listener_whose_connection_breaks_listens_again_and_says_look() {
    let database = Database::create().await;
    let store = database.store().await;
    let mut news = store.news().unwrap();
    assert_eq!(timeout(LONG, news.recv()).await.unwrap(), Ok(News::Missed));

    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = current_database() AND query = 'LISTEN rvc_durable'";
    database.client().await.batch_execute(sql).await.unwrap();

    assert_eq!(timeout(LONG, news.recv()).await.unwrap(), Ok(News::Missed));
    submit(&store, "a").await;
    assert_eq!(timeout(LONG, news.recv()).await.unwrap(), Ok(News::Due));
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_long_transaction_of_someone_else_stops_nothing() {
    let database = Database::create().await;
    let store = database.store().await;
    for n in 0..8 {
        submit(&store, &format!("a{n}")).await;
    }
    let client = database.client().await;
    let sql = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM mcp_action_tasks; \
        SELECT FROM mcp_action_tasks WHERE action_id IN ('a0', 'a1') FOR UPDATE";
    client.batch_execute(sql).await.unwrap();

    let claimed = claim_within(&store, 8, Duration::from_secs(30)).await;
    assert_eq!(claimed.len(), 6, "all but the two that are locked");
    for claimed in &claimed {
        let (write, sending) = begin(claimed);
        assert_eq!(store.write(write).await, Ok(Written::Applied));
        let task = StartAnswer::Task(remote(claimed.row.action.as_str()));
        let link = answered(claimed, sending, task);
        assert_eq!(store.write(link).await, Ok(Written::Applied));
    }
    assert_eq!(store.census().await.unwrap().open, 8);
    submit(&store, "late").await;
    assert_eq!(
        store.cancel_action(id("a2")).await,
        Ok(CancelOutcome::Cancelled)
    );
    client.batch_execute("COMMIT").await.unwrap();
    let freed = claim_within(&store, 8, Duration::from_secs(30)).await;
    assert!(freed.iter().any(|it| it.row.action == id("a0")));
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_row_that_somebody_holds_too_long_says_locked() {
    let database = Database::create().await;
    let options = PostgresOptions::url(&database.url()).unwrap();
    let store = options.patience(Duration::from_secs(2)).open();
    let store = store.await.unwrap();
    submit(&store, "a").await;
    let client = database.client().await;
    let sql = "BEGIN; SELECT FROM mcp_action_tasks FOR UPDATE";
    client.batch_execute(sql).await.unwrap();

    let refused = store.cancel_action(id("a")).await.unwrap_err();

    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    assert!(refused.is_retryable());
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn submissions_of_one_action_and_of_one_run_race_without_an_error() {
    let database = Database::create().await;
    let stores = [database.store().await, database.store().await];
    let submissions = (0..64_usize).map(|n| {
        let submission = submission(&format!("a{}", n % 4)).run(id("run"));
        stores[n % 2].submit(submission, HostKind::Ledger)
    });

    let submitted = join_all(submissions).await;

    let new = submitted
        .iter()
        .filter(|it| matches!(it, Ok(Submitted::New)))
        .count();
    let known = submitted
        .iter()
        .filter(|it| matches!(it, Ok(Submitted::Known(_))))
        .count();
    assert_eq!((new, known), (4, 60), "{submitted:?}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn what_a_server_says_survives_exactly_whatever_it_is() {
    let database = Database::create().await;
    let store = database.store().await;
    submit(&store, "a").await;
    let claimed = claim(&store).await;
    let (write, sending) = begin(&claimed);
    store.write(write).await.unwrap();
    let mut task = remote(&format!("\0\u{1}0{}", "x".repeat(20_000)));
    task.status = "\0".to_owned();
    task.progress = Some("\u{1}\u{7f}\u{10ffff}".to_owned());

    let link = answered(&claimed, sending, StartAnswer::Task(task.clone()));
    assert_eq!(store.write(link).await, Ok(Written::Applied));

    assert_eq!(row(&store, "a").await.remote, Some(task.clone()));
    let woken = store.wake_remote(id("robot"), RemoteKind::Mcp, task.id);
    assert_eq!(woken.await, Ok(1));
}
