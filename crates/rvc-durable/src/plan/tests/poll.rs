//! What polls lead to, and when the next one comes.

use super::*;

#[test]
fn completed_is_not_success() {
    let done = poll(working(), state(RemoteState::Completed(result(false))));
    let failed = poll(working(), state(RemoteState::Completed(result(true))));

    assert_eq!(done.phase, Phase::Completed);
    assert_eq!(
        (failed.phase, code(&failed)),
        (Phase::Failed, Some(ErrorCode::TOOL_ERROR))
    );
}

#[test]
fn a_missing_task_is_believed_after_three_answers_in_a_row_and_an_expired_one_at_once() {
    let gone = || PollAnswer::Gone {
        message: "unknown task".into(),
    };
    let twice = poll(poll(working(), gone()), gone());
    let reset = poll(poll(twice.clone(), state(RemoteState::Working)), gone());

    assert_eq!((twice.phase, reset.phase), (Phase::Working, Phase::Working));
    let missing = poll(twice, gone());
    assert_eq!(code(&missing), Some(ErrorCode::REMOTE_TASK_MISSING));
    assert!(missing.is_at_rest());

    let later = T0.after(Duration::from_secs(60));
    let expired = polled(working(), gone(), &Settings::default(), later, Jitter::NONE);
    assert_eq!(expired.phase, Phase::Expired);
    assert_eq!(code(&expired), Some(ErrorCode::REMOTE_TASK_EXPIRED));
}

#[test]
fn an_unreachable_server_is_waited_for_until_the_time_to_live_is_over() {
    let away = || PollAnswer::Unavailable {
        reason: "refused".into(),
        retry_after: None,
    };
    let mut row = working();
    for _ in 0..100 {
        row = poll(row, away());
    }
    assert_eq!(row.phase, Phase::Working);

    let later = T0.after(Duration::from_secs(61));
    let row = polled(row, away(), &Settings::default(), later, Jitter::NONE);
    assert_eq!(row.phase, Phase::Expired);
}

#[test]
fn malformed_answers_are_retried_up_to_a_bound_and_never_succeed() {
    let settings = Settings::default();
    let mut row = working();
    for round in 1..=settings.malformed_limit {
        assert_eq!(row.phase, Phase::Working, "round {round}");
        row = poll(
            row,
            PollAnswer::Malformed {
                reason: "status".into(),
            },
        );
    }
    assert_eq!(code(&row), Some(ErrorCode::REMOTE_PROTOCOL_ERROR));
    assert!(row.clean_up.open, "the work may go on");
}

#[test]
fn the_poll_interval_is_clamped_to_our_own_bounds() {
    for (hint_ms, wait_ms) in [
        (Some(0), 500),
        (Some(7_000), 7_000),
        (Some(10 * 365 * 86_400_000), 60_000),
        (None, 1_000),
    ] {
        let mut task = remote();
        task.poll_interval = hint_ms.map(Duration::from_millis);
        let row = start(begun(intent(&submission()), T0), StartAnswer::Task(task));
        let due = row.next_due.expect("it is polled");
        assert_eq!(due.since(T0), Duration::from_millis(wait_ms), "{hint_ms:?}");
    }
    assert_eq!(
        Jitter::new(0.0).spread(Duration::from_secs(10)),
        Duration::from_secs(9)
    );
    assert_eq!(
        Jitter::new(1.0).spread(Duration::from_secs(10)),
        Duration::from_secs(11)
    );
}

#[test]
fn a_row_wakes_up_for_its_deadline() {
    let mut row = working();
    let deadline = T0.after(Duration::from_secs(3));
    row.deadline_at = Some(deadline);
    if let Some(remote) = &mut row.remote {
        remote.poll_interval = Some(Duration::from_secs(50));
    }
    let mut task = remote();
    task.poll_interval = Some(Duration::from_secs(50));
    let state = RemoteState::Working;

    let row = poll(row, PollAnswer::State { task, state });

    assert_eq!(row.next_due, Some(deadline));
}

#[test]
fn without_a_hint_polls_follow_the_ladder() {
    let mut row = working();
    let mut waits = Vec::new();
    for _ in 0..5 {
        waits.push(row.next_due.expect("it is polled").since(T0).as_secs());
        row = poll(row, state(RemoteState::Working));
    }
    assert_eq!(waits, [1, 2, 3, 5, 5]);
}

#[test]
fn errors_back_off_to_the_longest_interval_and_a_retry_after_is_respected() {
    let away = |retry_after| PollAnswer::Unavailable {
        reason: "503".into(),
        retry_after,
    };
    let mut row = working();
    let mut waits = Vec::new();
    for _ in 0..10 {
        row = poll(row, away(None));
        waits.push(row.next_due.expect("it is tried again").since(T0).as_secs());
    }
    assert_eq!(waits, [1, 2, 3, 5, 5, 10, 20, 40, 60, 60]);

    let row = poll(working(), away(Some(Duration::from_secs(90))));
    assert_eq!(
        row.next_due.map(|due| due.since(T0)),
        Some(Duration::from_secs(90))
    );
    let row = poll(working(), away(Some(Duration::from_secs(u64::MAX))));
    assert_eq!(row.next_due.map(|due| due.since(T0)), Some(HORIZON));
}

#[test]
fn an_answer_that_is_too_large_ends_no_task_unless_it_says_so() {
    let settings = Settings::default();
    let over = poll(
        working(),
        PollAnswer::TooLarge {
            task: Some(ended()),
        },
    );
    assert_eq!(code(&over), Some(ErrorCode::RESULT_TOO_LARGE));
    assert!(over.is_at_rest());

    let row = poll(working(), PollAnswer::TooLarge { task: None });
    assert_eq!(code(&row), Some(ErrorCode::RESULT_TOO_LARGE));
    assert!(matches!(
        next(&row, &facts(), &settings, T0),
        Step::Cancel(_)
    ));

    // Nobody will see it stop.
    let row = cancel(row, CancelAnswer::Acknowledged, T0);
    let row = looked(
        row,
        PollAnswer::TooLarge { task: None },
        &settings,
        T0,
        Jitter::NONE,
    );
    let step = next(&row, &facts(), &settings, T0);
    assert!(
        matches!(
            step,
            Step::Close {
                unwatched: true,
                ..
            }
        ),
        "{step:?}"
    );
}
