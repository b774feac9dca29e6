use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::phase::Phase;
use crate::plan::HORIZON;

fn by_registration(claimed: &[Claimed]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for it in claimed {
        *counts
            .entry(it.row.registration.as_str().to_owned())
            .or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn a_registration_with_many_rows_leaves_room_for_the_others() {
    let (store, _) = open();
    for index in 0..50 {
        submit(&store, &format!("a{index:02}"), "busy").await;
    }
    submit(&store, "b", "quiet").await;

    let claimed = claim(&store, 10).await;

    let counts = by_registration(&claimed);
    assert_eq!((counts["busy"], counts["quiet"]), (9, 1));
}

#[tokio::test]
async fn every_registration_has_its_turn_when_one_place_after_the_other_becomes_free() {
    let (store, _) = open();
    for registration in ["a", "b", "c"] {
        for index in 0..6 {
            submit(&store, &format!("{registration}{index}"), registration).await;
        }
    }
    let mut request = ClaimRequest::new(LeaseOwner::draw(), 1, Duration::from_secs(30));
    let mut turns = String::new();
    for turn in 0..9 {
        let claimed = store.claim(request.clone()).await.unwrap().rows;
        let registration = claimed[0].row.registration.clone();
        turns.push_str(registration.as_str());
        request.served = Some(registration.clone());
        // The first six end at once; then what is in hand decides.
        if turn >= 6 {
            *request.in_hand.entry(registration).or_default() += 1;
        }
    }
    request.in_hand.insert("b".parse().unwrap(), 0);
    let freed = store.claim(request).await.unwrap().rows;
    turns.push_str(freed[0].row.registration.as_str());

    assert_eq!(turns, "abcabcabcb");
}

#[tokio::test]
async fn what_is_in_hand_counts_against_the_limit_of_a_registration() {
    let (store, _) = open();
    for index in 0..10 {
        submit(&store, &format!("a{index}"), "slow").await;
        submit(&store, &format!("b{index}"), "fast").await;
    }
    let mut request = ClaimRequest::new(LeaseOwner::draw(), 20, Duration::from_secs(30));
    request.per_registration = 4;
    request.in_hand.insert("slow".parse().unwrap(), 4);

    let claimed = store.claim(request).await.unwrap().rows;

    assert_eq!(
        by_registration(&claimed),
        BTreeMap::from([("fast".into(), 4)])
    );
}

#[tokio::test]
async fn a_leased_row_is_free_again_when_the_lease_is_over_and_its_old_holder_is_stale() {
    let (store, clock) = open();
    submit(&store, "a", "robot").await;
    let first = claim(&store, 1).await.pop().unwrap();
    assert_eq!(claim(&store, 1).await, []);

    clock.advance(Duration::from_secs(31));
    let second = claim(&store, 1).await.pop().unwrap();

    assert!(second.recovered && !first.recovered);
    assert!(second.claim.fence > first.claim.fence);
    let write = Write::new(first.claim.clone(), Phase::Intent, first.row);
    assert_eq!(store.write(write).await, Ok(Written::Stale));
    let renewed = store.renew(first.claim.clone(), Duration::from_secs(30));
    assert_eq!(renewed.await, Ok(Renewed::Lost));
    store.release(first.claim).await.unwrap();
    assert_eq!(claim(&store, 1).await, [], "a stale release frees nothing");
}

#[tokio::test]
async fn rows_of_a_holder_that_is_gone_are_anothers_when_the_lease_is_over_and_not_before() {
    let (store, clock) = open();
    for index in 0..8 {
        submit(&store, &format!("a{index}"), "robot").await;
    }
    let request = |limit| ClaimRequest::new(LeaseOwner::draw(), limit, Duration::from_secs(30));
    // Whoever holds them is never heard of again.
    let gone = store.claim(request(8)).await.unwrap().rows;
    assert_eq!(gone.len(), 8);

    clock.advance(Duration::from_millis(29_999));
    assert_eq!(store.claim(request(8)).await.unwrap().rows, []);
    clock.advance(Duration::from_millis(1));
    let (one, two) = tokio::join!(store.claim(request(4)), store.claim(request(4)));

    let (one, two) = (one.unwrap().rows, two.unwrap().rows);
    assert_eq!((one.len(), two.len()), (4, 4));
    let names = |rows: &[Claimed]| -> BTreeSet<String> {
        rows.iter().map(|it| it.row.action.to_string()).collect()
    };
    let taken: BTreeSet<String> = names(&one).union(&names(&two)).cloned().collect();
    assert_eq!(taken, names(&gone));
    for old in gone {
        let now = clock.now();
        let begun = Write::new(old.claim, Phase::Intent, plan::begun(old.row, now));
        assert_eq!(store.write(begun).await, Ok(Written::Stale));
    }
}

/// An action of which nothing is to be done before `due`.
async fn submit_asleep(store: &dyn Store, action: &str, due: Moment) {
    submit(store, action, "robot").await;
    let claimed = claim(store, 1).await.pop().unwrap();
    let mut row = claimed.row;
    row.next_due = Some(due);
    let asleep = Write::new(claimed.claim, Phase::Intent, row);
    store.write(asleep).await.unwrap();
}

#[tokio::test]
async fn when_the_clock_is_set_back_to_1970_everything_is_due_and_no_lease_lasts_longer() {
    let (store, clock) = open();
    submit(&store, "a", "robot").await;
    submit(&store, "b", "robot").await;
    let leased = claim(&store, 1).await.pop().unwrap();

    clock.set(0);

    assert_eq!(claim(&store, 10).await.len(), 1);
    clock.advance(Duration::from_secs(30));
    assert_eq!(claim(&store, 10).await.len(), 2, "both leases are over");
    let write = Write::new(leased.claim, Phase::Intent, leased.row);
    assert_eq!(store.write(write).await, Ok(Written::Stale));
}

#[tokio::test]
async fn when_the_clock_is_set_back_by_minutes_everything_is_due_and_no_lease_lasts_longer() {
    let (store, clock) = open();
    submit_asleep(&store, "asleep", clock.now().after(HORIZON)).await;
    submit(&store, "leased", "robot").await;
    let leased = claim(&store, 1).await.pop().unwrap();

    clock.set_back(20 * 60_000);

    let due = claim(&store, 10).await.pop().unwrap();
    assert_eq!(due.row.action.as_str(), "asleep", "the lease lasts for now");
    store.release(due.claim).await.unwrap();
    clock.advance(Duration::from_secs(30));
    assert_eq!(claim(&store, 10).await.len(), 2);
    let stale = Write::new(leased.claim, Phase::Intent, leased.row);
    assert_eq!(store.write(stale).await, Ok(Written::Stale));
}

#[tokio::test]
async fn a_step_in_hand_when_the_clock_is_set_back_leaves_its_row_due() {
    let (store, clock) = open();
    submit(&store, "a", "robot").await;
    let claimed = claim(&store, 1).await.pop().unwrap();
    // It reckons by the clock of before.
    let mut row = claimed.row;
    row.next_due = Some(clock.now().after(Duration::from_secs(60)));

    clock.set_back(20 * 60_000);
    assert_eq!(claim(&store, 1).await, []);
    let write = Write::new(claimed.claim, Phase::Intent, row);
    store.write(write).await.unwrap();

    assert_eq!(claim(&store, 1).await.len(), 1);
}

#[tokio::test]
async fn an_owner_whose_lease_ran_out_does_not_take_its_own_step_s_row() {
    let (store, clock) = open();
    submit(&store, "a", "robot").await;
    let owner = LeaseOwner::draw();
    let mut request = ClaimRequest::new(owner, 10, Duration::from_secs(30));
    let held = store.claim(request.clone()).await.unwrap().rows.remove(0);
    clock.advance(Duration::from_secs(31));
    submit(&store, "b", "robot").await;

    request.mine.push("a".parse().unwrap());
    let claims = store.claim(request).await.unwrap();
    let claimed: Vec<_> = claims
        .rows
        .iter()
        .map(|it| it.row.action.as_str())
        .collect();
    assert_eq!(claimed, ["b"]);
    let renewed = store.renew(held.claim, Duration::from_secs(30));
    assert_eq!(renewed.await, Ok(Renewed::Held));
    clock.advance(Duration::from_secs(31));
    assert_eq!(claim(&store, 10).await.len(), 2, "anybody else takes it");
}

#[tokio::test]
async fn the_lag_is_that_of_rows_that_nobody_has_in_hand() {
    let (store, clock) = open();
    submit(&store, "in-hand", "robot").await;
    clock.advance(Duration::from_secs(1));
    submit(&store, "overdue", "robot").await;
    let lag = async || store.census().await.unwrap().due_lag;
    clock.advance(Duration::from_secs(4));
    assert_eq!(lag().await, Duration::from_secs(5));

    assert_eq!(claim(&store, 1).await.len(), 1);
    assert_eq!(lag().await, Duration::from_secs(4));
    assert_eq!(claim(&store, 1).await.len(), 1);
    assert_eq!(lag().await, Duration::ZERO);
    clock.advance(Duration::from_secs(31));
    assert_eq!(
        lag().await,
        Duration::from_secs(36),
        "their leases are over"
    );
}

#[tokio::test]
async fn a_clock_that_is_corrected_by_seconds_makes_nothing_due() {
    let (store, clock) = open();
    let due = clock.now().after(Duration::from_secs(60));
    submit_asleep(&store, "asleep", due).await;

    clock.set_back(4_000);

    assert_eq!(claim(&store, 10).await, []);
}

#[tokio::test]
async fn a_row_that_sleeps_is_due_when_it_said_and_not_before() {
    let (store, clock) = open();
    let due = clock.now().after(HORIZON);
    submit_asleep(&store, "a", due).await;

    let request = ClaimRequest::new(LeaseOwner::draw(), 1, Duration::from_secs(30));
    let early = store.claim(request.clone()).await.unwrap();
    assert_eq!((early.rows.len(), early.next_due), (0, Some(due)));
    clock.advance(HORIZON);
    assert_eq!(store.claim(request).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn a_wake_during_a_step_is_not_lost() {
    let (store, clock) = open();
    submit(&store, "a", "robot").await;
    let claimed = claim(&store, 1).await.pop().unwrap();
    let mut row = claimed.row;
    row.next_due = Some(clock.now().after(HORIZON));

    assert_eq!(store.wake("a".parse().unwrap()).await, Ok(true));
    store
        .write(Write::new(claimed.claim, Phase::Intent, row))
        .await
        .unwrap();

    assert_eq!(claim(&store, 1).await.len(), 1);
}

#[tokio::test]
async fn a_cancel_while_sending_keeps_the_lease_and_takes_the_late_handle() {
    let (store, clock) = open();
    submit(&store, "a", "robot").await;
    let claimed = claim(&store, 1).await.pop().unwrap();
    let sending = plan::begun(claimed.row, clock.now());
    let begin = Write::new(claimed.claim.clone(), Phase::Intent, sending.clone());
    store.write(begin.keep_lease()).await.unwrap();

    let cancelled = store.cancel_action("a".parse().unwrap()).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    assert_eq!(claim(&store, 1).await, [], "the sender still holds it");

    let answer = StartAnswer::Task(remote("t-1"));
    let now = clock.now();
    let working = plan::started(
        sending,
        answer.clone(),
        &Settings::default(),
        now,
        Jitter::NONE,
    );
    let link = Write::new(claimed.claim.clone(), Phase::Sending, working);
    let Ok(Written::Overtaken(row)) = store.write(link).await else {
        panic!("the cancel was overwritten");
    };
    let late = plan::late(*row, answer, now);
    let link = Write::new(claimed.claim, Phase::Cancelled, late);
    assert_eq!(store.write(link).await, Ok(Written::Applied));

    let again = claim(&store, 1).await.pop().unwrap();
    assert_eq!(again.row.phase, Phase::Cancelled);
    assert_eq!(again.row.remote.map(|it| it.id), Some("t-1".into()));
}

#[tokio::test]
async fn a_write_that_fits_no_phase_is_refused_and_cancels_nothing() {
    let (store, clock) = open();
    submit(&store, "a", "robot").await;
    let claimed = claim(&store, 1).await.pop().unwrap();
    let before = store.row("a".parse().unwrap()).await;

    let sending = plan::begun(claimed.row, clock.now());
    let write = Write::new(claimed.claim, Phase::Working, sending);

    assert!(matches!(
        store.write(write).await,
        Err(StoreError::Constraint { .. })
    ));
    assert_eq!(store.row("a".parse().unwrap()).await, before);
}

#[tokio::test]
async fn answers_that_are_refused_in_part_are_not_stored_at_all() {
    let (store, clock) = open();
    submit(&store, "a", "robot").await;
    let claimed = claim(&store, 1).await.pop().unwrap();
    let mut asking = link(&store, claimed, "t-1", clock.now()).await;
    clock.advance(Duration::from_secs(60));
    let claimed = claim(&store, 1).await.pop().unwrap();
    asking.phase = Phase::InputRequired;
    for key in ["first", "second"] {
        asking.input_requests.insert(key.to_owned(), true.into());
    }
    let asked = Write::new(claimed.claim, Phase::Working, asking);
    assert_eq!(store.write(asked).await, Ok(Written::Applied));
    let answer = async |keys: &[&str]| {
        let answers = keys.iter().map(|key| ((*key).to_owned(), true.into()));
        store.answer("a".parse().unwrap(), answers.collect()).await
    };
    assert_eq!(answer(&["second"]).await, Ok(AnswerOutcome::Stored));

    let refused = answer(&["first", "second"]).await;

    assert_eq!(refused, Ok(AnswerOutcome::NotAsked));
    assert_eq!(answer(&["first"]).await, Ok(AnswerOutcome::Stored));
}

#[tokio::test]
async fn cancelling_a_run_cancels_its_pending_actions_and_refuses_new_ones() {
    let (store, _) = open();
    let run: RunId = "run".parse().unwrap();
    for action in ["a", "b"] {
        let submission = submission(action, "robot").run(run.clone());
        store.submit(submission, HostKind::Ledger).await.unwrap();
    }
    store.cancel_action("a".parse().unwrap()).await.unwrap();

    let cancelled = store.cancel_run(run.clone()).await.unwrap();

    assert_eq!(cancelled, Some(vec!["b".parse().unwrap()]));
    assert_eq!(store.cancel_run(run.clone()).await, Ok(Some(vec![])));
    let late = submission("c", "robot").run(run);
    let refused = store.submit(late, HostKind::Ledger).await;
    assert_eq!(refused, Ok(Submitted::RunCancelled));
    assert_eq!(store.cancel_run("none".parse().unwrap()).await, Ok(None));
}

#[tokio::test]
async fn the_same_action_with_other_arguments_is_refused() {
    let (store, _) = open();
    submit(&store, "a", "robot").await;

    let same = store
        .submit(submission("a", "robot"), HostKind::Ledger)
        .await;
    let other = submission("a", "robot").policy(crate::StartPolicy::ServerDedup);
    let other = store.submit(other, HostKind::Ledger).await;

    assert!(matches!(same, Ok(Submitted::Known(_))));
    assert_eq!(other, Ok(Submitted::Different));
}
