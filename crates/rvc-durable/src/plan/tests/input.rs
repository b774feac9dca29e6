//! Tasks that ask for input.

use super::*;

#[test]
fn input_is_surfaced_where_somebody_answers_and_fails_the_action_elsewhere() {
    let requests: Map = json!({"confirm": {"method": "elicitation/create"}})
        .as_object()
        .cloned()
        .expect("an object");
    let asks = state(RemoteState::InputRequired(requests));

    let refused = poll(working(), asks.clone());
    assert_eq!(code(&refused), Some(ErrorCode::INPUT_UNSUPPORTED));
    assert!(refused.clean_up.open, "the remote task is cancelled");

    let mut row = working();
    row.input = InputHandling::Surface;
    let row = poll(row, asks);
    assert_eq!(row.phase, Phase::InputRequired);
    assert_eq!(row.phase.action_state(), ActionState::Pending);
    let mut facts = facts();
    facts.answers.insert("stale".into(), json!({}));
    assert!(matches!(
        next(&row, &facts, &Settings::default(), T0),
        Step::Poll(_)
    ));
    facts
        .answers
        .insert("confirm".into(), json!({"action": "accept"}));
    let Step::Update(_, answers) = next(&row, &facts, &Settings::default(), T0) else {
        panic!("the answer stays here");
    };
    assert_eq!(answers.keys().collect::<Vec<_>>(), ["confirm"]);
}

/// A row whose task asks for "k", and what the host answers to it.
fn asking() -> (Linkage, Facts) {
    let mut row = working();
    row.input = InputHandling::Surface;
    let row = poll(row, state(asks()));
    let mut facts = facts();
    facts.answers.insert("k".into(), json!({}));
    (row, facts)
}

fn update(row: Linkage, answer: UpdateAnswer, now: Moment) -> Linkage {
    updated(
        row,
        &["k".into()],
        answer,
        &Settings::default(),
        now,
        Jitter::NONE,
    )
}

#[test]
fn an_answer_that_cannot_be_sent_is_sent_again_after_a_poll_and_never_at_once() {
    let settings = Settings::default();
    let (row, facts) = asking();
    assert!(matches!(
        next(&row, &facts, &settings, T0),
        Step::Update(..)
    ));

    let row = update(row, no_answer(), T0);

    assert_eq!(row.next_due, Some(T0.after(Duration::from_secs(1))));
    assert!(matches!(next(&row, &facts, &settings, T0), Step::Poll(_)));
    let row = poll(row, state(asks()));
    assert!(row.next_due >= Some(T0.after(settings.min_poll_interval)));
    assert!(matches!(
        next(&row, &facts, &settings, T0),
        Step::Update(..)
    ));
}

#[test]
fn a_dead_server_ends_a_row_with_an_unsent_answer_when_its_time_to_live_is_over() {
    let settings = Settings::default();
    let (mut row, facts) = asking();
    let mut now = T0;
    for _ in 0..30 {
        now = row.next_due.unwrap_or(now);
        row = match next(&row, &facts, &settings, now) {
            Step::Update(..) => update(row, no_answer(), now),
            Step::Poll(_) => {
                let away = PollAnswer::Unavailable {
                    reason: "refused".into(),
                    retry_after: None,
                };
                polled(row, away, &settings, now, Jitter::NONE)
            }
            _ => break,
        };
    }
    assert_eq!(row.phase, Phase::Expired);
    assert!(now.since(T0) < Duration::from_secs(240));
}

#[test]
fn a_refused_answer_says_nothing_about_the_task_and_is_asked_for_again() {
    let settings = Settings::default();
    let refused = || UpdateAnswer::Refused {
        reason: "bad params".into(),
    };
    let (mut row, mut facts) = asking();
    for _ in 0..10 {
        row = update(row, refused(), T0);
        assert_eq!((row.phase, row.trouble.gone), (Phase::InputRequired, 0));
        assert!(
            row.input_requests.is_empty(),
            "not open until a poll says so"
        );
        // The store forgot it.
        facts.answers.clear();
        assert!(matches!(next(&row, &facts, &settings, T0), Step::Poll(_)));

        row = poll(row, state(asks()));

        assert!(row.input_requests.contains_key("k"));
        let last = row.trouble.last.as_deref();
        assert!(last.is_some_and(|last| last.contains("bad params")));
    }
    let row = poll(row, state(RemoteState::Working));
    assert_eq!(row.trouble, crate::linkage::Trouble::default());
}
