use rvc_wire::Map;
use serde_json::json;

use super::*;
use crate::phase::Phase;
use crate::plan::{PollAnswer, RemoteState, UpdateAnswer};
use crate::submission::InputHandling;

fn keys(keys: &[&str]) -> Map {
    keys.iter()
        .map(|key| ((*key).to_owned(), json!({})))
        .collect()
}

async fn claim_one(store: &dyn Store) -> Claimed {
    claim(store, 1).await.pop().unwrap()
}

/// Writes what a poll that finds the task asking for both keys leads to.
async fn asked(store: &dyn Store, claimed: Claimed, now: Moment) {
    let task = claimed.row.remote.clone().unwrap();
    let state = RemoteState::InputRequired(keys(&["one", "two"]));
    let answer = PollAnswer::State { task, state };
    let row = claimed.row.clone();
    let row = plan::polled(row, answer, &Settings::default(), now, Jitter::NONE);
    let write = Write::new(claimed.claim, claimed.row.phase, row);
    assert_eq!(store.write(write).await, Ok(Written::Applied));
}

#[tokio::test]
async fn a_refused_answer_is_forgotten_and_a_sent_one_is_not() {
    let (store, clock) = open();
    let surfaced = submission("a", "robot").input(InputHandling::Surface);
    store.submit(surfaced, HostKind::Ledger).await.unwrap();
    let claimed = claim_one(&store).await;
    link(&store, claimed, "t-1", clock.now()).await;
    clock.advance(Duration::from_secs(2));
    let claimed = claim_one(&store).await;
    asked(&store, claimed, clock.now()).await;
    let answer = |key: &'static str| store.answer("a".parse().unwrap(), keys(&[key]));

    // One is sent.
    assert_eq!(answer("one").await, Ok(AnswerOutcome::Stored));
    let claimed = claim_one(&store).await;
    let sent = Write::new(claimed.claim, Phase::InputRequired, claimed.row);
    let written = store.write(sent.answered(vec!["one".into()])).await;
    assert_eq!(written, Ok(Written::Applied));

    // The other one is refused, and so might the first one be, too late.
    assert_eq!(answer("two").await, Ok(AnswerOutcome::Stored));
    let claimed = claim_one(&store).await;
    assert_eq!(claimed.surroundings.answers, keys(&["two"]));
    let refused = ["one".to_owned(), "two".to_owned()];
    let row = plan::updated(
        claimed.row,
        &refused[1..],
        UpdateAnswer::Refused {
            reason: "no".into(),
        },
        &Settings::default(),
        clock.now(),
        Jitter::NONE,
    );
    let write = Write::new(claimed.claim, Phase::InputRequired, row);
    let written = store.write(write.refused(refused.to_vec())).await;
    assert_eq!(written, Ok(Written::Applied));
    assert_eq!(answer("two").await, Ok(AnswerOutcome::NotAsked));

    clock.advance(Duration::from_secs(2));
    let claimed = claim_one(&store).await;
    assert_eq!(claimed.surroundings.answers, Map::new());
    asked(&store, claimed, clock.now()).await;
    assert_eq!(answer("one").await, Ok(AnswerOutcome::NotAsked));
    assert_eq!(answer("two").await, Ok(AnswerOutcome::Stored));
}
