//! How a row ends that does not run to its end: cancelled, revoked, too late, or told to a host.

use super::*;

#[test]
fn a_revoked_registration_settles_the_action_and_sends_nothing() {
    for row in [
        intent(&submission()),
        begun(intent(&submission()), T0),
        working(),
    ] {
        let mut facts = facts();
        facts.access = Access::Revoked {
            reason: "is disabled",
        };

        let Step::Settle(outcome) = next(&row, &facts, &Settings::default(), T0) else {
            panic!("{} goes on", row.phase);
        };

        assert_eq!(outcome.error_code, Some(ErrorCode::REGISTRATION_REVOKED));
        let row = settled(row, outcome, T0);
        if row.clean_up.open {
            let step = next(&row, &facts, &Settings::default(), T0);
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
    }
}

#[test]
fn the_deadline_fails_the_action_and_the_remote_task_is_cancelled() {
    let mut row = working();
    row.deadline_at = Some(T0.after(Duration::from_secs(5)));
    let early = next(&row, &facts(), &Settings::default(), T0);
    assert!(matches!(early, Step::Poll(_)));

    let late = T0.after(Duration::from_secs(5));
    let Step::Settle(outcome) = next(&row, &facts(), &Settings::default(), late) else {
        panic!("the deadline passed unseen");
    };

    assert_eq!(
        outcome.error_code,
        Some(ErrorCode::EXECUTION_DEADLINE_EXCEEDED)
    );
    let row = settled(row, outcome, late);
    assert!(matches!(
        next(&row, &facts(), &Settings::default(), late),
        Step::Cancel(_)
    ));
}

#[test]
fn a_cancel_that_was_not_asked_for_says_who_cancelled() {
    let row = poll(working(), state(RemoteState::Cancelled));

    assert_eq!(row.phase, Phase::Cancelled);
    assert_eq!(code(&row), Some(ErrorCode::REMOTE_CANCELLED));
}

/// A task that the host cancelled while it worked.
fn cancelled(kind: RemoteKind) -> Linkage {
    let mut row = working();
    row.remote = Some(RemoteTask { kind, ..remote() });
    settled(row, Outcome::cancelled_by_host(), T0)
}

fn no_such_task() -> CancelAnswer {
    CancelAnswer::Gone {
        message: "unknown task".into(),
    }
}

#[test]
fn a_cancel_that_reaches_the_wrong_replica_is_asked_again() {
    let settings = Settings::default();
    let mut row = cancelled(RemoteKind::Mcp);
    for _ in 1..settings.gone_confirmations {
        row = cancel(row, no_such_task(), T0);
        assert!(row.next_due > Some(T0), "not at once");
        assert!(matches!(
            next(&row, &facts(), &settings, T0),
            Step::Cancel(_)
        ));
    }
    // What another replica says counts anew.
    let found = cancel(row.clone(), CancelAnswer::Acknowledged, T0);
    assert_eq!(found.trouble.gone, 0);
    let gone = || PollAnswer::Gone {
        message: "unknown task".into(),
    };
    let found = looked(found, gone(), &settings, T0, Jitter::NONE);
    assert!(matches!(
        next(&found, &facts(), &settings, T0),
        Step::Look(_)
    ));

    let row = cancel(row, no_such_task(), T0);
    assert!(row.is_at_rest());
    assert_eq!(row.remote.map(|remote| remote.status), Some("gone".into()));
}

#[test]
fn a_cancel_of_an_unknown_task_is_believed_at_once_after_its_time_to_live_and_by_the_contract() {
    let later = T0.after(Duration::from_secs(60));
    for (kind, now) in [(RemoteKind::Mcp, later), (RemoteKind::Contract, T0)] {
        let row = cancel(cancelled(kind), no_such_task(), now);
        assert!(row.is_at_rest(), "{kind:?}");
    }
}

#[test]
fn a_foreign_host_is_told_before_the_phase_is_final() {
    let mut row = working();
    row.host = HostKind::Foreign;
    let row = poll(row, state(RemoteState::Completed(result(false))));
    assert_eq!(row.phase, Phase::Accepted);
    assert_eq!(
        next(&row, &facts(), &Settings::default(), T0),
        Step::Deliver
    );

    let row = delivery_failed(row, "away".into(), &Settings::default(), T0, Jitter::NONE);
    assert_eq!(row.phase, Phase::Accepted);
    let row = delivered(row, T0);

    assert_eq!(row.phase, Phase::Completed);
    assert!(row.is_at_rest());
}
