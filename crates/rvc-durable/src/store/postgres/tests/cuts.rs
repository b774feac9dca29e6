//! The commit is made and its answer is lost. The store repeats the operation by itself, and
//! nothing is done twice, or reported as somebody else's.

use serde_json::json;

use super::*;
use crate::outcome::Outcome;
use crate::plan::{PollAnswer, RemoteState};

/// A store behind a proxy, and one beside it.
///
/// An answer is cut by the tag of its command. The server sends the tag together with
/// `ReadyForQuery`, so what it commits is committed by then.
struct Cut {
    database: Database,
    proxy: FaultProxy,
    store: PostgresStore,
}

impl Cut {
    async fn new() -> Self {
        let database = Database::create().await;
        let (proxy, url) = database.proxied();
        let store = PostgresStore::open(&url).await.unwrap();
        Self {
            database,
            proxy,
            store,
        }
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_start_that_was_recorded_is_won_by_the_one_that_recorded_it_and_by_nobody_else() {
    let it = Cut::new().await;
    submit(&it.store, "a").await;
    let claimed = claim(&it.store).await;
    let (write, _) = begin(&claimed);

    it.proxy.cut_answer_with(b"UPDATE");
    let won = it.store.write(write.clone()).await;

    assert_eq!((won, it.proxy.lost_answers()), (Ok(Written::Applied), 1));
    let now = row(&it.store, "a").await;
    assert_eq!(
        (now.phase, now.starts, now.outcome),
        (Phase::Sending, 1, None)
    );
    assert_eq!(it.store.write(write).await, Ok(Written::Applied), "again");
    let (other, _) = begin(&claimed);
    let lost = it.store.write(other).await;
    assert!(
        matches!(lost, Err(StoreError::Constraint { .. })),
        "{lost:?}"
    );
    assert_eq!(row(&it.store, "a").await.outcome, None);
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_link_that_was_made_is_known_even_after_another_replica_has_polled() {
    let it = Cut::new().await;
    submit(&it.store, "a").await;
    let claimed = claim(&it.store).await;
    let (write, sending) = begin(&claimed);
    it.store.write(write).await.unwrap();
    let link = answered(&claimed, sending, StartAnswer::Task(remote("t-1")));

    it.proxy.cut_answer_with(b"UPDATE");
    assert_eq!(it.store.write(link.clone()).await, Ok(Written::Applied));
    assert_eq!(it.proxy.lost_answers(), 1);

    // Meanwhile somebody else goes on with it, twice.
    let elsewhere = it.database.store().await;
    for _ in 0..2 {
        elsewhere.wake(id("a")).await.unwrap();
        let polled = claim(&elsewhere).await;
        let mut row = polled.row.clone();
        row.polls += 1;
        let poll = Write::new(polled.claim, Phase::Working, row);
        assert_eq!(elsewhere.write(poll).await, Ok(Written::Applied));
    }
    assert_eq!(it.store.write(link).await, Ok(Written::Applied));
    assert_eq!(row(&it.store, "a").await.polls, 2, "and nothing is undone");
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn an_outcome_that_was_written_is_the_one_outcome() {
    let it = Cut::new().await;
    work(&it.store, "a", false).await;
    it.store.wake(id("a")).await.unwrap();
    let claimed = claim(&it.store).await;
    let result = crate::ToolResultEnvelope::from_object(Map::new());
    let answer = PollAnswer::State {
        task: remote("a"),
        state: RemoteState::Completed(result),
    };
    let (settings, now) = (Settings::default(), claimed.row.created_at);
    let after = plan::polled(claimed.row, answer, &settings, now, Jitter::NONE);
    let write = Write::new(claimed.claim, Phase::Working, after.clone());

    it.proxy.cut_answer_with(b"COMMIT");
    let written = it.store.write(write).await;

    assert_eq!(
        (written, it.proxy.lost_answers()),
        (Ok(Written::Applied), 1)
    );
    assert_eq!(row(&it.store, "a").await.outcome, after.outcome);
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_submission_that_was_stored_is_known() {
    let it = Cut::new().await;

    it.proxy.cut_answer_with(b"COMMIT");
    let submitted = it.store.submit(submission("a"), HostKind::Ledger).await;

    assert_eq!(it.proxy.lost_answers(), 1);
    assert_eq!(
        submitted,
        Ok(Submitted::Known(Box::new(row(&it.store, "a").await)))
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_cancel_that_was_committed_says_so_and_names_its_actions() {
    let it = Cut::new().await;
    let run: RunId = id("run");
    for action in ["a", "b", "c"] {
        let submission = submission(action).run(run.clone());
        it.store.submit(submission, HostKind::Ledger).await.unwrap();
    }

    it.proxy.cut_answer_with(b"COMMIT");
    let cancelled = it.store.cancel_action(id("a")).await;
    assert_eq!(
        (cancelled, it.proxy.lost_answers()),
        (Ok(CancelOutcome::Cancelled), 1)
    );
    it.proxy.cut_answer_with(b"COMMIT");
    let cancelled = it.store.cancel_run(run).await;

    assert_eq!(
        (cancelled, it.proxy.lost_answers()),
        (Ok(Some(vec![id("b"), id("c")])), 2)
    );
    for action in ["a", "b", "c"] {
        let row = row(&it.store, action).await;
        assert_eq!(row.outcome, Some(Outcome::cancelled_by_host()));
    }
    let again = it.store.cancel_action(id("a")).await;
    assert!(matches!(again, Ok(CancelOutcome::Ended(_))), "{again:?}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn an_answer_that_was_stored_is_stored() {
    let it = Cut::new().await;
    work(&it.store, "a", true).await;
    let answers = json!({"k": {"action": "accept"}})
        .as_object()
        .cloned()
        .unwrap();

    it.proxy.cut_answer_with(b"COMMIT");
    let answer = it.store.answer(id("a"), answers.clone()).await;

    assert_eq!(
        (answer, it.proxy.lost_answers()),
        (Ok(AnswerOutcome::Stored), 1)
    );
    assert_eq!(claim(&it.store).await.surroundings.answers, answers);
    let again = it.store.answer(id("a"), answers).await;
    assert_eq!(again, Ok(AnswerOutcome::NotAsked));
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn leases_are_prolonged_given_back_and_taken_whatever_is_lost() {
    let it = Cut::new().await;
    submit(&it.store, "a").await;
    let lease = Duration::from_millis(300);

    it.proxy.cut_answer_with(b"SELECT");
    let mut request = ClaimRequest::new(LeaseOwner::draw(), 1, lease);
    let claims = it.store.claim(request.clone()).await.unwrap();
    assert_eq!(
        (claims.rows, it.proxy.lost_answers()),
        (vec![], 1),
        "nobody knows that lease"
    );
    // It runs out by itself.
    tokio::time::sleep(lease).await;
    request.lease = Duration::from_secs(30);
    let claimed = it.store.claim(request).await.unwrap().rows.pop().unwrap();
    assert!(claimed.recovered);

    it.proxy.cut_answer_with(b"UPDATE");
    let renewed = it
        .store
        .renew(claimed.claim.clone(), Duration::from_secs(30));
    assert_eq!(
        (renewed.await, it.proxy.lost_answers()),
        (Ok(Renewed::Held), 2)
    );
    it.proxy.cut_answer_with(b"UPDATE");
    assert_eq!(it.store.release(claimed.claim).await, Ok(()));
    assert_eq!(it.proxy.lost_answers(), 3);
    assert!(!claim(&it.store).await.recovered, "it was given back");
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn registrations_are_kept_and_removed_whatever_is_lost() {
    let it = Cut::new().await;

    it.proxy.cut_answer_with(b"INSERT");
    assert_eq!(it.store.put_registration(robot()).await, Ok(()));
    assert_eq!(it.store.registrations(None).await, Ok(vec![robot()]));
    it.proxy.cut_answer_with(b"COMMIT");
    let removed = it.store.remove_registration(id("robot")).await;

    assert_eq!((removed, it.proxy.lost_answers()), (Ok(true), 2));
    assert_eq!(it.store.remove_registration(id("robot")).await, Ok(false));
}
