//! Two replicas race each durable step, on a real server and a real clock: one wins, and what
//! is stale never overwrites.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Barrier;
use tokio_postgres::Client;

use super::database::{Database, connect};
use super::*;
use crate::outcome::Outcome;
use crate::phase::Phase;
use crate::plan::{HORIZON, PollAnswer, RemoteState};

/// Two stores with pools of their own on one database.
struct Replicas {
    one: PostgresStore,
    two: PostgresStore,
    /// Past the stores.
    client: Client,
    _database: Database,
}

impl Replicas {
    async fn new() -> Self {
        let database = Database::create();
        let url = database.url();
        let open = || PostgresStore::open(&url);
        Self {
            one: open().await.unwrap(),
            two: open().await.unwrap(),
            client: connect(&database.url()).await,
            _database: database,
        }
    }

    async fn row(&self, action: &str) -> Linkage {
        self.one.row(id(action)).await.unwrap().unwrap()
    }

    /// An action that is held under a lease that is over, in a phase before its outcome.
    async fn held(&self, action: &str, phase: Phase) -> Claimed {
        submit(&self.one, action, "robot").await;
        let mut claimed = self
            .claim_one(&self.one, action, Duration::from_secs(30))
            .await;
        if phase != Phase::Intent {
            let now = self.one.now().await.unwrap();
            let sending = plan::begun(claimed.row.clone(), now);
            let begin = Write::new(claimed.claim.clone(), Phase::Intent, sending.clone());
            let written = self.one.write(begin.keep_lease()).await;
            assert_eq!(written, Ok(Written::Applied));
            claimed.row = sending;
        }
        if phase == Phase::Working {
            let now = self.one.now().await.unwrap();
            let linked = linked(&claimed, action, now);
            claimed.row = linked.row.clone();
            let linked = self.one.write(linked.keep_lease()).await;
            assert_eq!(linked, Ok(Written::Applied));
        }
        let ended = self.one.renew(claimed.claim.clone(), Duration::ZERO).await;
        assert_eq!(ended, Ok(Renewed::Held));
        claimed
    }

    /// Claims one action; there is no other that is due.
    async fn claim_one(&self, store: &dyn Store, action: &str, lease: Duration) -> Claimed {
        let request = ClaimRequest::new(LeaseOwner::draw(), 1, lease);
        let claimed = store.claim(request).await.unwrap().rows.pop().unwrap();
        assert_eq!(claimed.row.action, id(action));
        claimed
    }

    /// Ends an action and its clean-up, so that it is never due again.
    async fn settle(&self, action: &str) {
        self.one.cancel_action(id(action)).await.unwrap();
        self.sql(
            "UPDATE mcp_action_tasks SET lease_owner = NULL, lease_until = NULL, \
             next_due = NULL, clean_up_open = '0' WHERE phase IN ('completed', 'failed', \
             'cancelled', 'expired', 'unknown') AND next_due IS NOT NULL",
        )
        .await;
    }

    async fn sql(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }
}

fn id(action: &str) -> ActionId {
    action.parse().unwrap()
}

/// The write that links a remote task, named as the action, to a row in `sending`.
fn linked(claimed: &Claimed, remote_id: &str, now: Moment) -> Write {
    let mut task = remote(remote_id);
    // Due at once.
    task.poll_interval = Some(Duration::ZERO);
    let answer = StartAnswer::Task(task);
    let sending = claimed.row.clone();
    let mut working = plan::started(sending, answer, &Settings::default(), now, Jitter::NONE);
    working.next_due = Some(now);
    Write::new(claimed.claim.clone(), Phase::Sending, working)
}

/// The write that a poll of a row in `working` leads to.
fn polled(claimed: &Claimed, state: RemoteState, progress: &str, now: Moment) -> Write {
    let mut task = claimed.row.remote.clone().unwrap();
    task.progress = Some(progress.into());
    task.ended = state != RemoteState::Working;
    let answer = PollAnswer::State { task, state };
    let row = claimed.row.clone();
    let row = plan::polled(row, answer, &Settings::default(), now, Jitter::NONE);
    Write::new(claimed.claim.clone(), Phase::Working, row)
}

fn completed() -> RemoteState {
    let result = json!({"content": [{"type": "text", "text": "there"}]});
    let result = result.as_object().cloned().unwrap();
    RemoteState::Completed(crate::ToolResultEnvelope::from_object(result))
}

/// Both at once, each on a task of its own, with a short and varying lead for one of them.
async fn race<A: Send + 'static, B: Send + 'static>(
    round: u32,
    one: impl Future<Output = A> + Send + 'static,
    two: impl Future<Output = B> + Send + 'static,
) -> (A, B) {
    let lead = Duration::from_micros(u64::from(round / 2 % 16) * 100);
    let late = move |is_late| {
        if is_late {
            // Timers are too coarse, and these threads have nothing else to do.
            std::thread::sleep(lead);
        }
    };
    let start = Arc::new(Barrier::new(2));
    let other = start.clone();
    let one = tokio::spawn(async move {
        start.wait().await;
        late(round.is_multiple_of(2));
        one.await
    });
    let two = tokio::spawn(async move {
        other.wait().await;
        late(!round.is_multiple_of(2));
        two.await
    });
    (one.await.unwrap(), two.await.unwrap())
}

/// How often each side came first.
#[derive(Debug, Default)]
struct Tally {
    one: u32,
    two: u32,
}

impl Tally {
    fn count(&mut self, one: bool) {
        if one {
            self.one += 1;
        } else {
            self.two += 1;
        }
    }

    /// A race that always ends the same way proves nothing.
    fn judge(&self) {
        assert!(self.one > 0 && self.two > 0, "{self:?}");
    }
}

const ROUNDS: u32 = 200;

/// The old holder of a lease that is over writes, while the other replica claims the row.
async fn contest(phase: Phase, write: impl Fn(&Claimed, Moment) -> Write) {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let action = format!("a{round}");
        let held = replicas.held(&action, phase).await;
        let now = replicas.one.now().await.unwrap();
        let write = write(&held, now);
        let (one, two) = (replicas.one.clone(), replicas.two.clone());
        let (first, again) = (write.clone(), write.clone());
        let request = ClaimRequest::new(LeaseOwner::draw(), 1, Duration::from_secs(30));
        let (written, claims) = race(round, async move { one.write(first).await }, async move {
            two.claim(request).await
        })
        .await;
        let recovered = claims.unwrap().rows.pop();
        let row = replicas.row(&action).await;
        match written.unwrap() {
            Written::Applied => {
                assert_eq!(row, write.row, "the winner's row");
                // The other came too early, or saw what was written.
                assert!(recovered.is_none_or(|it| it.row == write.row));
                tally.count(true);
            }
            Written::Stale => {
                assert_eq!(row, held.row, "nothing was overwritten");
                let recovered = recovered.unwrap();
                assert_eq!(recovered.row, held.row);
                assert!(recovered.claim.fence > held.claim.fence);
                let mut second = held.row.clone();
                second.trouble.last = Some("second".into());
                let second = Write::new(recovered.claim, phase, second);
                let expected = second.row.clone();
                assert_eq!(replicas.two.write(second).await, Ok(Written::Applied));
                assert_eq!(replicas.one.write(again).await, Ok(Written::Stale));
                assert_eq!(replicas.row(&action).await, expected);
                tally.count(false);
            }
            other => panic!("{other:?}"),
        }
        replicas.settle(&action).await;
    }
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_stale_replica_does_not_begin_a_start() {
    contest(Phase::Intent, |held, now| {
        Write::new(
            held.claim.clone(),
            Phase::Intent,
            plan::begun(held.row.clone(), now),
        )
        .keep_lease()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_stale_replica_links_no_remote_task() {
    contest(Phase::Sending, |held, now| {
        linked(held, held.row.action.as_str(), now)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_stale_replica_writes_no_poll() {
    contest(Phase::Working, |held, now| {
        polled(held, RemoteState::Working, "first", now)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_stale_replica_accepts_no_outcome() {
    contest(Phase::Working, |held, now| {
        polled(held, completed(), "", now)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn one_row_is_leased_to_one_replica() {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let action = format!("a{round}");
        submit(&replicas.one, &action, "robot").await;
        let (one, two) = (replicas.one.clone(), replicas.two.clone());
        let (one, two) = race(round, async move { claim(&one, 1).await }, async move {
            claim(&two, 1).await
        })
        .await;
        assert_eq!(one.len() + two.len(), 1);
        tally.count(two.is_empty());
        replicas.settle(&action).await;
    }
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn replicas_share_a_batch_and_no_row_is_leased_twice() {
    let replicas = Replicas::new().await;
    for index in 0..500 {
        submit(
            &replicas.one,
            &format!("a{index}"),
            &format!("robot{}", index % 7),
        )
        .await;
    }
    let take = |store: PostgresStore| async move {
        let mut held = Vec::new();
        // A row that the other is just leasing is passed over, so nothing may be a little early.
        for _ in 0..200 {
            held.extend(claim(&store, 8).await);
        }
        held
    };
    let one = take(replicas.one.clone());
    let (one, two) = race(0, one, take(replicas.two.clone())).await;

    assert!(!one.is_empty() && !two.is_empty());
    let held = one.iter().chain(&two).map(|it| it.row.action.as_str());
    let unique: std::collections::HashSet<&str> = held.collect();
    assert_eq!((unique.len(), one.len() + two.len()), (500, 500));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn of_a_cancel_and_a_completion_exactly_one_wins() {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let action = format!("a{round}");
        let held = replicas.held(&action, Phase::Working).await;
        let now = replicas.one.now().await.unwrap();
        let write = polled(&held, completed(), "", now);
        let (one, two, cancelled) = (replicas.one.clone(), replicas.two.clone(), id(&action));
        let by_run = round % 4 >= 2;
        let (written, cancel) = race(
            round,
            async move { one.write(write).await.unwrap() },
            async move {
                if !by_run {
                    return two.cancel_action(cancelled).await.unwrap();
                }
                // Each action is a run of its own.
                let run = cancelled.as_str().parse().unwrap();
                let ended = two.cancel_run(run).await.unwrap().unwrap();
                if ended == [cancelled.clone()] {
                    CancelOutcome::Cancelled
                } else {
                    let row = two.row(cancelled).await.unwrap().unwrap();
                    CancelOutcome::Ended(Box::new(row))
                }
            },
        )
        .await;
        let row = replicas.row(&action).await;
        match (written, cancel) {
            (Written::Applied, CancelOutcome::Ended(ended)) => {
                assert_eq!(
                    (row.phase, ended.phase),
                    (Phase::Completed, Phase::Completed)
                );
                tally.count(true);
            }
            (Written::Overtaken(seen), CancelOutcome::Cancelled) => {
                assert_eq!(
                    (row.phase, seen.phase),
                    (Phase::Cancelled, Phase::Cancelled)
                );
                assert_eq!(row.outcome, Some(Outcome::cancelled_by_host()));
                tally.count(false);
            }
            both => panic!("{both:?}"),
        }
        let state = row.outcome.unwrap().state();
        let agree = format!(
            "SELECT count(*) FROM actions JOIN mcp_action_outcomes USING (action_id) \
             WHERE action_id = '{action}' AND state = '{0}' AND phase = '{0}'",
            state.as_str()
        );
        assert_eq!(replicas.count(&agree).await, 1, "the ledger agrees");
        replicas.settle(&action).await;
    }
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_start_is_not_begun_after_a_cancel() {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let action = format!("a{round}");
        let held = replicas.held(&action, Phase::Intent).await;
        let now = replicas.one.now().await.unwrap();
        let begin = Write::new(held.claim, Phase::Intent, plan::begun(held.row, now));
        let (one, two, cancelled) = (replicas.one.clone(), replicas.two.clone(), id(&action));
        let (written, cancel) = race(
            round,
            async move { one.write(begin.keep_lease()).await.unwrap() },
            async move { two.cancel_action(cancelled).await },
        )
        .await;
        assert_eq!(cancel, Ok(CancelOutcome::Cancelled));
        let row = replicas.row(&action).await;
        assert_eq!(row.phase, Phase::Cancelled);
        let is_sending = matches!(written, Written::Applied);
        assert!(
            is_sending || matches!(written, Written::Overtaken(_)),
            "{written:?}"
        );
        // What may have been sent has to be cleaned up.
        assert_eq!(
            (row.starts, row.clean_up.open),
            (u32::from(is_sending), is_sending)
        );
        tally.count(is_sending);
        replicas.settle(&action).await;
    }
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn nothing_is_submitted_into_a_run_that_is_being_cancelled_and_stays_pending() {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let run: RunId = format!("run{round}").parse().unwrap();
        let first = submission(&format!("a{round}"), "robot").run(run.clone());
        let late = submission(&format!("b{round}"), "robot").run(run.clone());
        replicas.one.submit(first, HostKind::Ledger).await.unwrap();
        let (one, two) = (replicas.one.clone(), replicas.two.clone());
        let (submitted, cancelled) = race(
            round,
            async move { one.submit(late, HostKind::Ledger).await.unwrap() },
            async move { two.cancel_run(run).await.unwrap().unwrap().len() },
        )
        .await;
        let expected = match submitted {
            Submitted::New => 2,
            Submitted::RunCancelled => 1,
            other => panic!("{other:?}"),
        };
        assert_eq!(cancelled, expected);
        tally.count(expected == 2);
    }
    let pending = "SELECT count(*) FROM actions WHERE state = 'pending'";
    assert_eq!(replicas.count(pending).await, 0);
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_stale_replica_does_not_deliver() {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let action = format!("a{round}");
        let submission = submission(&action, "robot");
        replicas
            .one
            .submit(submission, HostKind::Foreign)
            .await
            .unwrap();
        let lease = Duration::from_secs(30);
        let held = replicas.claim_one(&replicas.one, &action, lease).await;
        let now = replicas.one.now().await.unwrap();
        let outcome = Outcome::failed(crate::ErrorCode::remote("X"), "x");
        let accepted = plan::settled(held.row, outcome, now);
        let write = Write::new(held.claim.clone(), Phase::Intent, accepted.clone());
        assert_eq!(
            replicas.one.write(write.keep_lease()).await,
            Ok(Written::Applied)
        );
        replicas
            .one
            .renew(held.claim.clone(), Duration::ZERO)
            .await
            .unwrap();

        let delivered = plan::delivered(accepted.clone(), now);
        let write = Write::new(held.claim, Phase::Accepted, delivered.clone());
        let (one, two) = (replicas.one.clone(), replicas.two.clone());
        let request = ClaimRequest::new(LeaseOwner::draw(), 1, lease);
        let (written, claims) = race(
            round,
            async move { one.write(write).await.unwrap() },
            async move { two.claim(request).await.unwrap() },
        )
        .await;
        let recovered = claims.rows.into_iter().next();
        let row = replicas.row(&action).await;
        if written == Written::Applied {
            assert_eq!((row, recovered), (delivered, None));
            tally.count(true);
        } else {
            assert_eq!((written, &row), (Written::Stale, &accepted));
            let write = Write::new(recovered.unwrap().claim, Phase::Accepted, delivered);
            assert_eq!(replicas.two.write(write).await, Ok(Written::Applied));
            tally.count(false);
        }
        replicas.settle(&action).await;
    }
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn an_action_that_is_submitted_twice_at_once_is_one_row() {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let same = submission(&format!("a{round}"), "robot");
        let other = match round % 4 {
            0 | 1 => same.clone(),
            _ => same.clone().policy(crate::StartPolicy::ServerDedup),
        };
        let is_same = same == other;
        let (one, two) = (replicas.one.clone(), replicas.two.clone());
        let (first, second) = race(
            round,
            async move { one.submit(same, HostKind::Ledger).await.unwrap() },
            async move { two.submit(other, HostKind::Ledger).await.unwrap() },
        )
        .await;
        let (new, late) = match (first, second) {
            (Submitted::New, late) => (true, late),
            (late, Submitted::New) => (false, late),
            both => panic!("{both:?}"),
        };
        match late {
            Submitted::Known(_) => assert!(is_same),
            Submitted::Different => assert!(!is_same),
            other => panic!("{other:?}"),
        }
        tally.count(new);
    }
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_remote_task_is_linked_to_one_of_two_actions() {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let names = [format!("a{round}"), format!("b{round}")];
        let remote_id = format!("t-{round}");
        let mut writes = Vec::new();
        for action in &names {
            let held = replicas.held(action, Phase::Sending).await;
            // The next one must be the only one that is due.
            let lease = Duration::from_secs(30);
            replicas.one.renew(held.claim.clone(), lease).await.unwrap();
            let now = replicas.one.now().await.unwrap();
            writes.push(linked(&held, &remote_id, now));
        }
        let (second, first) = (writes.pop().unwrap(), writes.pop().unwrap());
        let (one, two) = (replicas.one.clone(), replicas.two.clone());
        let (first, second) = race(
            round,
            async move { one.write(first).await.unwrap() },
            async move { two.write(second).await.unwrap() },
        )
        .await;
        match (first, second) {
            (Written::Applied, Written::RemoteTaken) => tally.count(true),
            (Written::RemoteTaken, Written::Applied) => tally.count(false),
            both => panic!("{both:?}"),
        }
        for action in &names {
            replicas.settle(action).await;
        }
    }
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_lease_is_prolonged_or_taken_over_and_not_both() {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let action = format!("a{round}");
        let held = replicas.held(&action, Phase::Working).await;
        let (one, two) = (replicas.one.clone(), replicas.two.clone());
        let (renewed, claimed) = race(
            round,
            async move {
                one.renew(held.claim, Duration::from_secs(30))
                    .await
                    .unwrap()
            },
            async move { claim(&two, 1).await.len() },
        )
        .await;
        match (renewed, claimed) {
            (Renewed::Held, 0) => tally.count(true),
            (Renewed::Lost, 1) => tally.count(false),
            both => panic!("{both:?}"),
        }
        replicas.settle(&action).await;
    }
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_wake_beside_a_write_is_not_lost() {
    let replicas = Replicas::new().await;
    for round in 0..ROUNDS {
        let action = format!("a{round}");
        let held = replicas.held(&action, Phase::Working).await;
        let now = replicas.one.now().await.unwrap();
        let mut sleep = polled(&held, RemoteState::Working, "", now);
        sleep.row.next_due = Some(now.after(HORIZON));
        let (one, two, woken) = (replicas.one.clone(), replicas.two.clone(), action.clone());
        let (written, woken) = race(round, async move { one.write(sleep).await }, async move {
            let robot = "robot".parse().unwrap();
            two.wake_remote(robot, RemoteKind::Mcp, woken).await
        })
        .await;
        assert_eq!((written, woken), (Ok(Written::Applied), Ok(1)));
        assert_eq!(claim(&replicas.one, 1).await.len(), 1, "round {round}");
        replicas.settle(&action).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_request_for_input_is_answered_once() {
    let replicas = Replicas::new().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let action = format!("a{round}");
        let held = replicas.held(&action, Phase::Working).await;
        let now = replicas.one.now().await.unwrap();
        let mut asking = polled(&held, RemoteState::Working, "", now);
        asking.row.phase = Phase::InputRequired;
        asking.row.input_requests = json!({"k": {}}).as_object().cloned().unwrap();
        replicas.one.write(asking).await.unwrap();
        let (one, two) = (replicas.one.clone(), replicas.two.clone());
        let answer = |store: PostgresStore| {
            let action = id(&action);
            async move {
                let answers = json!({"k": 1}).as_object().cloned().unwrap();
                store.answer(action, answers).await.unwrap()
            }
        };
        match race(round, answer(one), answer(two)).await {
            (AnswerOutcome::Stored, AnswerOutcome::NotAsked) => tally.count(true),
            (AnswerOutcome::NotAsked, AnswerOutcome::Stored) => tally.count(false),
            both => panic!("{both:?}"),
        }
        replicas.settle(&action).await;
    }
    tally.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn cancels_of_a_run_and_of_its_actions_at_once_never_lock_each_other_out() {
    let replicas = Replicas::new().await;
    for round in 0..ROUNDS / 4 {
        let run: RunId = format!("run{round}").parse().unwrap();
        let actions: Vec<ActionId> = (0..8).map(|n| id(&format!("a{round}-{n}"))).collect();
        for action in &actions {
            let submission = submission(action.as_str(), "robot").run(run.clone());
            replicas
                .one
                .submit(submission, HostKind::Ledger)
                .await
                .unwrap();
        }
        let (one, two) = (replicas.one.clone(), replicas.two.clone());
        let each = async move {
            // Backwards, against the order of the run's.
            let cancels = actions
                .into_iter()
                .rev()
                .map(|action| one.cancel_action(action));
            let cancels = futures_util::future::join_all(cancels).await;
            cancels
                .into_iter()
                .filter(|cancel| matches!(cancel.as_ref().unwrap(), CancelOutcome::Cancelled))
                .count()
        };
        let all = async move { two.cancel_run(run).await.unwrap().unwrap().len() };
        let (each, all) = race(round, each, all).await;
        assert_eq!(each + all, 8, "each action is cancelled by one of them");
    }
}
