//! What a file on a disk does to the store.

#![allow(clippy::unwrap_used)]

use std::sync::mpsc::Sender;

use rusqlite::Connection;

use super::*;
use crate::store::LeaseOwner;
use crate::store::tests::{claim, submission, submit};

fn path(directory: &tempfile::TempDir) -> std::path::PathBuf {
    directory.path().join("durable.db")
}

#[tokio::test]
async fn what_was_submitted_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(path(&directory)).unwrap();
    submit(&store, "a", "robot").await;
    drop(store);

    let store = SqliteStore::open(path(&directory)).unwrap();

    let row = store.row("a".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(
        (row.phase, row.tool.as_str()),
        (crate::Phase::Intent, "navigate_to")
    );
}

#[tokio::test]
async fn two_processes_on_one_file_never_hold_the_same_row() {
    let directory = tempfile::tempdir().unwrap();
    let one = SqliteStore::open(path(&directory)).unwrap();
    let two = SqliteStore::open(path(&directory)).unwrap();
    for index in 0..40 {
        submit(&one, &format!("a{index}"), "robot").await;
    }

    let mut held = std::collections::HashSet::new();
    loop {
        let (first, second) = tokio::join!(claim(&one, 3), claim(&two, 3));
        if first.is_empty() && second.is_empty() {
            break;
        }
        for claimed in first.into_iter().chain(second) {
            assert!(held.insert(claimed.row.action), "leased twice");
        }
    }

    assert_eq!(held.len(), 40);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_not_in_the_way_of_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(path(&directory)).unwrap();
    for (action, registration) in [("a", "odd"), ("b", "robot")] {
        submit(&store, action, registration).await;
    }
    let db = Connection::open(path(&directory)).unwrap();
    db.execute(
        "INSERT INTO registrations VALUES ('odd', 'local', 'no URL', 'sse', 1)",
        [],
    )
    .unwrap();

    let claimed = claim(&store, 2).await;

    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].row.action.as_str(), "b");
    assert_eq!(claim(&store, 2).await, [], "it waits for a lease");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_has_no_other_claimed_twice() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(path(&directory)).unwrap();
    for action in ["b", "c"] {
        submit(&store, action, "robot").await;
    }
    let db = Connection::open(path(&directory)).unwrap();
    // An owner has a name. It has been due for longer than the others.
    db.execute(
        "INSERT INTO mcp_action_tasks (action_id, run_id, owner_id, registration_id, host, tool, \
         arguments, request_hash, policy, surfaces_input, created_at, next_due, updated_at) \
         SELECT 'a', run_id, '', registration_id, 'foreign', tool, arguments, request_hash, \
         policy, surfaces_input, 0, 0, 0 FROM mcp_action_tasks WHERE action_id = 'b'",
        [],
    )
    .unwrap();

    let claimed = claim(&store, 4).await;

    let mut actions: Vec<_> = claimed.iter().map(|it| it.row.action.as_str()).collect();
    actions.sort_unstable();
    assert_eq!(actions, ["b", "c"]);
}

#[test]
fn many_processes_may_open_a_new_file_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let path = path(&directory);
            std::thread::spawn(move || SqliteStore::open(path).err())
        })
        .collect();

    for opened in opening {
        assert_eq!(opened.join().unwrap(), None);
    }
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(path(&directory)).unwrap());
    let db = Connection::open(path(&directory)).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);

    let refused = SqliteStore::open(path(&directory)).err();

    assert_eq!(
        refused,
        Some(StoreError::NewerSchema {
            found: 99,
            known: 1
        })
    );
}

#[test]
fn the_database_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let db = Connection::open(path(&directory)).unwrap();
    db.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(db);

    assert_eq!(
        SqliteStore::open(path(&directory)).err(),
        Some(StoreError::Foreign)
    );
}

#[test]
fn a_file_that_is_no_database_is_called_damaged() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(path(&directory), [b'x'; 8192]).unwrap();

    let refused = SqliteStore::open(path(&directory)).err();

    assert!(
        matches!(refused, Some(StoreError::Corrupt { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_path_that_leads_nowhere_cannot_be_opened() {
    let directory = tempfile::tempdir().unwrap();

    let refused = SqliteStore::open(directory.path().join("none/durable.db")).err();

    assert!(
        matches!(refused, Some(StoreError::Open { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_locked_file_refuses_the_write_and_takes_it_later() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(path(&directory)).busy_timeout(Duration::ZERO);
    let store = options.open().unwrap();
    let other = Connection::open(path(&directory)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();

    let refused = store
        .submit(submission("a", "robot"), HostKind::Ledger)
        .await
        .unwrap_err();

    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    assert!(refused.is_retryable());
    other.execute_batch("ROLLBACK").unwrap();
    submit(&store, "a", "robot").await;
}

#[tokio::test]
async fn a_full_disk_refuses_the_write_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(path(&directory)).unwrap();
    submit(&store, "a", "robot").await;
    // A page limit is what a full disk looks like from here.
    store
        .change(|db, _| {
            let pages: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0))?;
            Ok(
                db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| {
                    row.get::<_, i64>(0)
                })?,
            )
        })
        .await
        .unwrap();

    let mut huge = submission("b", "robot");
    huge.arguments
        .insert("map".into(), "x".repeat(1 << 20).into());
    let refused = store.submit(huge, HostKind::Ledger).await.unwrap_err();

    assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
    assert_eq!(
        claim(&store, 10).await.len(),
        1,
        "the first one is still there"
    );
    assert_eq!(store.row("b".parse().unwrap()).await, Ok(None));
}

#[tokio::test]
async fn a_database_that_may_only_be_read_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(path(&directory)).unwrap();
    submit(&store, "a", "robot").await;
    store
        .change(|db, _| Ok(db.pragma_update(None, "query_only", true)?))
        .await
        .unwrap();

    let refused = store
        .submit(submission("b", "robot"), HostKind::Ledger)
        .await
        .unwrap_err();

    assert!(
        matches!(refused, StoreError::ReadOnly { .. }),
        "{refused:?}"
    );
    assert!(store.row("a".parse().unwrap()).await.unwrap().is_some());
}

#[tokio::test]
async fn an_operation_that_is_refused_leaves_its_group_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(path(&directory)).unwrap();

    let broken = store.change(|db, _| Ok(db.execute_batch("INSERT INTO nonsense VALUES (1)")?));
    let (good, bad, also_good) = tokio::join!(
        store.submit(submission("a", "robot"), HostKind::Ledger),
        broken,
        store.submit(submission("b", "robot"), HostKind::Ledger),
    );

    assert_eq!((good, also_good), (Ok(Submitted::New), Ok(Submitted::New)));
    assert!(bad.is_err());
    assert_eq!(store.rows(Filter::all()).await.unwrap().len(), 2);
}

/// Holds the thread until all wait, so that they become one group.
fn hold(store: &SqliteStore) -> (Sender<()>, BoxFuture<'_, Result<(), StoreError>>) {
    let (all_wait, waits) = std::sync::mpsc::channel();
    let first = store.change(move |_, _| {
        let _ = waits.recv();
        Ok(())
    });
    (all_wait, first)
}

#[tokio::test]
async fn an_operation_that_fails_half_way_is_undone_and_its_group_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(path(&directory)).unwrap();

    let (all_wait, first) = hold(&store);
    let good = store.submit(submission("a", "robot"), HostKind::Ledger);
    let broken = store.change(|db, _| {
        db.execute_batch(
            "INSERT INTO runs (run_id, owner_id, created_at) VALUES ('half', 'x', 0)",
        )?;
        Ok(db.execute_batch("INSERT INTO nonsense VALUES (1)")?)
    });
    let also_good = store.submit(submission("b", "robot"), HostKind::Ledger);
    drop(all_wait);
    let (first, good, broken, also_good) = tokio::join!(first, good, broken, also_good);

    assert_eq!(first, Ok(()));
    assert_eq!((good, also_good), (Ok(Submitted::New), Ok(Submitted::New)));
    assert!(broken.is_err());
    assert_eq!(store.rows(Filter::all()).await.unwrap().len(), 2);
    let half = store.read(|db, _| rows::run(db, "half"));
    assert_eq!(half.await, Ok(None));
}

#[tokio::test]
async fn a_claim_whose_group_is_begun_anew_says_what_it_holds_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    // A second later at each look: the second lease ends later than the first.
    let looks = std::sync::atomic::AtomicI64::new(0);
    let clock = move || {
        let look = looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Moment::from_unix_ms(1_000 * look)
    };
    let options = SqliteOptions::file(path(&directory)).clock(clock);
    let store = options.open().unwrap();
    submit(&store, "a", "robot").await;

    let (all_wait, first) = hold(&store);
    let request = ClaimRequest::new(LeaseOwner::draw(), 2, Duration::from_secs(30));
    let claims = store.claim(request);
    let broken = store.change(|db, _| {
        db.execute_batch("UPDATE mcp_action_tasks SET wakes = wakes + 7")?;
        Ok(db.execute_batch("INSERT INTO nonsense VALUES (1)")?)
    });
    drop(all_wait);
    let (first, claims, broken) = tokio::join!(first, claims, broken);

    assert_eq!(first, Ok(()));
    assert!(broken.is_err());
    let claimed = &claims.unwrap().rows[0];
    assert_eq!((claimed.claim.fence.get(), claimed.claim.wakes), (1, 0));
    let until = store.read(|db, _| {
        let sql = "SELECT lease_until FROM mcp_action_tasks";
        Ok(db.query_row(sql, [], |row| row.get(0))?)
    });
    assert_eq!(until.await, Ok(claimed.until.unix_ms()));
}

#[tokio::test]
async fn a_text_that_is_none_is_not_in_the_way_of_other_rows() {
    for damage in [
        "UPDATE mcp_action_tasks SET last_error = CAST(X'ff' AS TEXT) WHERE action_id = 'a'",
        "UPDATE mcp_action_tasks SET input_requests = CAST(X'22ff22' AS TEXT) \
            WHERE action_id = 'a'",
        "INSERT INTO registrations \
            VALUES ('robot', CAST(X'ff' AS TEXT), 'http://robot/mcp', 'streamable-http', 1)",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(path(&directory)).unwrap();
        submit(&store, "a", "robot").await;
        submit(&store, "b", "arm").await;
        let damaged = store.change(move |db, _| Ok(db.execute_batch(damage)?));
        damaged.await.unwrap();

        let claimed = claim(&store, 2).await;

        let actions = claimed.iter().map(|it| it.row.action.as_str());
        assert_eq!(actions.collect::<Vec<_>>(), ["b"], "{damage}");
    }
}

#[test]
fn a_claim_takes_due_rows_in_the_order_of_their_index() {
    let mut db = Connection::open_in_memory().unwrap();
    migration::prepare(&mut db).unwrap();

    let plan: Vec<String> = db
        .prepare(&format!("EXPLAIN QUERY PLAN {}", *claim::DUE))
        .unwrap()
        .query_map([rusqlite::types::Null; 7], |row| row.get(3))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();

    let plan = plan.join("; ");
    assert!(plan.contains("USING INDEX due_by_registration"), "{plan}");
    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
}

#[test]
fn a_claim_reads_the_index_of_due_rows_and_nothing_else() {
    let mut db = Connection::open_in_memory().unwrap();
    migration::prepare(&mut db).unwrap();
    for sql in [
        "SELECT registration_id FROM mcp_action_tasks INDEXED BY due_by_registration WHERE next_due IS NOT NULL AND registration_id > 'a' ORDER BY registration_id LIMIT 1",
        "SELECT next_due FROM mcp_action_tasks INDEXED BY due_by_registration WHERE registration_id = 'a' AND next_due IS NOT NULL AND next_due > 3 ORDER BY next_due LIMIT 1",
        "SELECT count(*) FROM mcp_action_tasks WHERE next_due IS NOT NULL",
    ] {
        let plan: Vec<String> = db
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap()
            .query_map([], |row| row.get(3))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let plan = plan.join("; ");
        assert!(
            plan.contains("COVERING INDEX due_by_registration"),
            "{plan}"
        );
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
