//! What a start leads to, answered or not.

use super::*;

#[test]
fn a_start_has_the_outcome_that_its_answer_has() {
    let sending = || begun(intent(&submission()), T0);
    let lost = || StartAnswer::Lost {
        reason: "reset".into(),
        retry_after: None,
    };
    for (answer, phase, error) in [
        (StartAnswer::Result(result(false)), Phase::Completed, None),
        (
            StartAnswer::Result(result(true)),
            Phase::Failed,
            Some(ErrorCode::TOOL_ERROR),
        ),
        (
            StartAnswer::Refused {
                code: -32602,
                message: "bad".into(),
            },
            Phase::Failed,
            Some(ErrorCode::remote("-32602")),
        ),
        (
            StartAnswer::InputRequired,
            Phase::Failed,
            Some(ErrorCode::INPUT_UNSUPPORTED),
        ),
        (
            StartAnswer::Malformed { reason: "?".into() },
            Phase::Failed,
            Some(ErrorCode::REMOTE_PROTOCOL_ERROR),
        ),
        (
            StartAnswer::TooLarge,
            Phase::Failed,
            Some(ErrorCode::RESULT_TOO_LARGE),
        ),
        (
            lost(),
            Phase::Unknown,
            Some(ErrorCode::START_OUTCOME_UNKNOWN),
        ),
        (StartAnswer::Task(remote()), Phase::Working, None),
    ] {
        let row = start(sending(), answer.clone());
        assert_eq!((row.phase, code(&row)), (phase, error), "{answer:?}");
        assert!(!row.clean_up.open, "{answer:?}");
    }
}

#[test]
fn a_broken_handle_fails_the_action_and_its_work_is_cancelled() {
    let answer = StartAnswer::BrokenHandle {
        task: remote(),
        reason: "ttlMs is -5".into(),
    };

    let row = start(begun(intent(&submission()), T0), answer);

    assert_eq!(code(&row), Some(ErrorCode::REMOTE_PROTOCOL_ERROR));
    assert!(matches!(
        next(&row, &facts(), &Settings::default(), T0),
        Step::Cancel(_)
    ));
}

#[test]
fn a_proven_unsent_start_is_as_if_it_had_never_begun() {
    let answer = StartAnswer::NotSent {
        reason: "refused".into(),
        retry_after: None,
    };

    let row = start(begun(intent(&submission()), T0), answer);

    assert_eq!(
        (row.phase, row.starts, row.sent_at),
        (Phase::Intent, 0, None)
    );
    assert!(matches!(
        next(&row, &facts(), &Settings::default(), T0),
        Step::Start(_)
    ));
}

/// A row whose first start was lost, and whose second one was proven unsent.
fn resent_in_vain() -> Linkage {
    let submission = submission().policy(StartPolicy::IdempotentTool);
    let lost = StartAnswer::Lost {
        reason: "reset".into(),
        retry_after: None,
    };
    let again = begun(start(begun(intent(&submission), T0), lost), T0);
    start(again, not_sent())
}

fn not_sent() -> StartAnswer {
    StartAnswer::NotSent {
        reason: "refused".into(),
        retry_after: None,
    }
}

#[test]
fn an_earlier_start_that_was_lost_is_not_forgotten_when_a_later_one_is_proven_unsent() {
    let row = resent_in_vain();
    assert_eq!((row.phase, row.starts), (Phase::Intent, 1));
    assert_eq!(row.sent_at, Some(T0));

    // Cancelled by the host: an error closes the clean-up.
    let cancelled = settled(row.clone(), Outcome::cancelled_by_host(), T0);
    let step = next(&cancelled, &facts(), &Settings::default(), T0);
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

    // Ended by a clock or by an operator: the outcome says it, and the error comes with it.
    let mut revoked = facts();
    revoked.access = Access::Revoked {
        reason: "is disabled",
    };
    let mut late = row.clone();
    late.deadline_at = Some(T0);
    for (row, facts) in [(row, revoked), (late, facts())] {
        let Step::Settle(outcome) = next(&row, &facts, &Settings::default(), T0) else {
            panic!("it goes on");
        };
        assert!(
            outcome.message.contains("may have run"),
            "{}",
            outcome.message
        );
        assert!(leaves_unwatched(&settled(row, outcome, T0)));
    }
}

#[test]
fn a_cancel_while_a_start_is_sent_again_leaves_an_error_for_the_earlier_one() {
    let lost = || StartAnswer::Lost {
        reason: "reset".into(),
        retry_after: None,
    };
    let first = begun(intent(&submission()), T0);
    let mut second = resent_in_vain();
    second = begun(second, T0);
    for (row, answer, goes_on) in [
        (first.clone(), not_sent(), false),
        (first, lost(), true),
        (second.clone(), not_sent(), true),
        (second, lost(), true),
    ] {
        let row = late(settled(row, Outcome::cancelled_by_host(), T0), answer, T0);

        let step = next(&row, &facts(), &Settings::default(), T0);
        let unwatched = matches!(
            step,
            Step::Close {
                unwatched: true,
                ..
            }
        );
        assert_eq!(unwatched, goes_on, "{step:?}");
        assert_eq!(row.is_at_rest(), !goes_on);
    }
}

#[test]
fn a_deadline_that_passes_while_a_start_is_unanswered_says_that_the_tool_may_have_run() {
    let deadline = T0.after(Duration::from_secs(5));
    let mut sending = begun(intent(&submission()), T0);
    sending.deadline_at = Some(deadline);
    let lost = StartAnswer::Lost {
        reason: "the deadline".into(),
        retry_after: None,
    };
    // Its sender sees the deadline pass, or died before it.
    let answered = started(
        sending.clone(),
        lost,
        &Settings::default(),
        deadline,
        Jitter::NONE,
    );
    let Step::Settle(outcome) = next(&sending, &facts(), &Settings::default(), deadline) else {
        panic!("the deadline passed unseen");
    };
    let recovered = settled(sending, outcome, deadline);
    for row in [answered, recovered] {
        assert_eq!(code(&row), Some(ErrorCode::EXECUTION_DEADLINE_EXCEEDED));
        let message = &row.outcome.as_ref().expect("an outcome").message;
        assert!(message.contains("may have run"), "{message}");
        assert!(leaves_unwatched(&row));
    }

    // Nothing was sent, or it is known what was started.
    for mut row in [intent(&submission()), working()] {
        row.deadline_at = Some(T0);
        let Step::Settle(outcome) = next(&row, &facts(), &Settings::default(), T0) else {
            panic!("the deadline passed unseen");
        };
        assert!(!outcome.message.contains("may have run"));
        assert!(!leaves_unwatched(&settled(row, outcome, T0)));
    }
}

#[test]
fn an_interrupted_start_is_sent_again_only_where_the_operator_allows_it() {
    let settings = Settings::default();
    for (policy, again) in [
        (StartPolicy::AtMostOnce, false),
        (StartPolicy::ServerDedup, true),
        (StartPolicy::IdempotentTool, true),
    ] {
        let mut row = begun(intent(&submission().policy(policy)), T0);
        let step = next(&row, &facts(), &settings, T0);
        assert_eq!(matches!(step, Step::Start(_)), again, "{policy}");

        row.starts = settings.start_limit;
        let Step::Settle(outcome) = next(&row, &facts(), &settings, T0) else {
            panic!("{policy} never gives up");
        };
        assert_eq!(outcome.error_code, Some(ErrorCode::START_OUTCOME_UNKNOWN));
        assert_eq!(outcome.phase, Phase::Unknown);
    }
}

#[test]
fn a_retry_after_is_respected_by_starts_too_and_bounded_by_the_deadline() {
    let busy = || StartAnswer::Lost {
        reason: "503".into(),
        retry_after: Some(Duration::from_secs(30)),
    };
    let submission = submission().policy(StartPolicy::ServerDedup);
    let row = start(begun(intent(&submission), T0), busy());
    assert_eq!(row.next_due, Some(T0.after(Duration::from_secs(30))));

    let deadline = T0.after(Duration::from_secs(20));
    let mut row = begun(intent(&submission), T0);
    row.deadline_at = Some(deadline);
    assert_eq!(start(row, busy()).next_due, Some(deadline));
}

#[test]
fn a_handle_that_comes_after_the_cancel_is_cancelled_too() {
    let sending = begun(intent(&submission()), T0);
    let cancelled = settled(sending, Outcome::cancelled_by_host(), T0);
    assert!(cancelled.clean_up.open);

    let row = late(cancelled, StartAnswer::Task(remote()), T0);

    assert_eq!(row.phase, Phase::Cancelled);
    assert!(matches!(
        next(&row, &facts(), &Settings::default(), T0),
        Step::Cancel(_)
    ));
}
