use std::time::Duration;

use proptest::prelude::*;
use rvc_wire::Map;
use serde_json::json;

use super::*;
use crate::envelope::ToolResultEnvelope;
use crate::error_code::ErrorCode;
use crate::linkage::{HostKind, Linkage, RemoteKind, RemoteTask};
use crate::moment::Moment;
use crate::outcome::Outcome;
use crate::phase::{ActionState, Phase};
use crate::policy::StartPolicy;
use crate::registration::{Access, Registration, TransportKind};
use crate::submission::{InputHandling, Submission};

const T0: Moment = Moment::from_unix_ms(1_700_000_000_000);

fn submission() -> Submission {
    Submission::new(
        "action".parse().expect("an id"),
        "robot".parse().expect("an id"),
        "navigate_to",
    )
}

fn registration() -> Registration {
    Registration {
        id: "robot".parse().expect("an id"),
        owner: crate::name::OwnerId::local(),
        endpoint: "http://robot/mcp".parse().expect("a URL"),
        transport: TransportKind::StreamableHttp,
        enabled: true,
    }
}

fn facts() -> Facts {
    Facts {
        run: RunState::Active,
        access: Access::Granted(registration()),
        answers: Map::new(),
    }
}

fn remote() -> RemoteTask {
    RemoteTask {
        kind: RemoteKind::Mcp,
        id: "t-1".into(),
        created_at: "2026-01-01T00:00:00Z".into(),
        status: "working".into(),
        ended: false,
        progress: None,
        ttl: Some(Duration::from_secs(60)),
        poll_interval: None,
    }
}

fn ended() -> RemoteTask {
    RemoteTask {
        status: "completed".into(),
        ended: true,
        ..remote()
    }
}

fn result(is_error: bool) -> ToolResultEnvelope {
    let result = json!({"content": [{"type": "text", "text": "there"}], "isError": is_error});
    ToolResultEnvelope::from_result(result.as_object().expect("an object")).expect("a result")
}

fn intent(submission: &Submission) -> Linkage {
    Linkage::intent(submission, HostKind::Ledger, T0)
}

fn working() -> Linkage {
    start(
        begun(intent(&submission()), T0),
        StartAnswer::Task(remote()),
    )
}

fn start(row: Linkage, answer: StartAnswer) -> Linkage {
    started(row, answer, &Settings::default(), T0, Jitter::NONE)
}

fn poll(row: Linkage, answer: PollAnswer) -> Linkage {
    polled(row, answer, &Settings::default(), T0, Jitter::NONE)
}

fn state(state: RemoteState) -> PollAnswer {
    let mut task = remote();
    task.ended = matches!(
        state,
        RemoteState::Completed(_) | RemoteState::Failed { .. } | RemoteState::Cancelled
    );
    PollAnswer::State { task, state }
}

fn code(row: &Linkage) -> Option<ErrorCode> {
    row.outcome
        .as_ref()
        .and_then(|outcome| outcome.error_code.clone())
}

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

fn asks() -> RemoteState {
    RemoteState::InputRequired(json!({"k": {}}).as_object().cloned().expect("an object"))
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

fn no_answer() -> UpdateAnswer {
    UpdateAnswer::Unavailable {
        reason: "refused".into(),
        retry_after: None,
    }
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

fn cancel(row: Linkage, answer: CancelAnswer, now: Moment) -> Linkage {
    cancel_answered(row, answer, &Settings::default(), now, Jitter::NONE)
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

fn any_remote() -> impl Strategy<Value = RemoteTask> {
    let ms = || {
        prop_oneof![
            Just(None),
            Just(Some(0)),
            (0..600_000_u64).prop_map(Some),
            (0..u64::MAX / 2).prop_map(Some)
        ]
    };
    (ms(), ms(), any::<bool>()).prop_map(|(ttl, poll, contract)| RemoteTask {
        kind: if contract {
            RemoteKind::Contract
        } else {
            RemoteKind::Mcp
        },
        ttl: ttl.map(Duration::from_millis),
        poll_interval: poll.map(Duration::from_millis),
        ..remote()
    })
}

fn any_start() -> impl Strategy<Value = StartAnswer> {
    prop_oneof![
        4 => any_remote().prop_map(StartAnswer::Task),
        1 => any::<bool>().prop_map(|is_error| StartAnswer::Result(result(is_error))),
        1 => Just(StartAnswer::Refused { code: -32000, message: "no".into() }),
        1 => any_remote().prop_map(|task| StartAnswer::BrokenHandle { task, reason: "ttl".into() }),
        1 => Just(StartAnswer::InputRequired),
        1 => Just(StartAnswer::Malformed { reason: "?".into() }),
        1 => Just(StartAnswer::TooLarge),
        2 => Just(StartAnswer::NotSent { reason: "refused".into(), retry_after: None }),
        2 => prop::option::of(0..u64::MAX).prop_map(|after| StartAnswer::Lost {
            reason: "reset".into(),
            retry_after: after.map(Duration::from_secs),
        }),
    ]
}

fn any_poll() -> impl Strategy<Value = PollAnswer> {
    let requests = || json!({"k": {}}).as_object().cloned().expect("an object");
    let any_state = prop_oneof![
        6 => Just(RemoteState::Working),
        1 => Just(RemoteState::InputRequired(requests())),
        1 => any::<bool>().prop_map(|is_error| RemoteState::Completed(result(is_error))),
        1 => Just(RemoteState::Failed { code: ErrorCode::remote("X"), message: "x".into() }),
        1 => Just(RemoteState::Cancelled),
    ];
    prop_oneof![
        6 => (any_remote(), any_state).prop_map(|(mut task, state)| {
            task.ended = !matches!(state, RemoteState::Working | RemoteState::InputRequired(_));
            PollAnswer::State { task, state }
        }),
        2 => Just(PollAnswer::Gone { message: "unknown".into() }),
        1 => Just(PollAnswer::Restarted { message: "reused".into() }),
        2 => Just(PollAnswer::Malformed { reason: "?".into() }),
        1 => any::<bool>().prop_map(|read| PollAnswer::TooLarge {
            task: read.then(ended),
        }),
        2 => prop::option::of(0..u64::MAX).prop_map(|after| PollAnswer::Unavailable {
            reason: "away".into(),
            retry_after: after.map(Duration::from_secs),
        }),
    ]
}

fn any_cancel() -> impl Strategy<Value = CancelAnswer> {
    prop_oneof![
        Just(CancelAnswer::Acknowledged),
        Just(CancelAnswer::Ended {
            status: "cancelled".into()
        }),
        Just(CancelAnswer::Gone {
            message: "unknown task".into()
        }),
        Just(CancelAnswer::Unavailable {
            reason: "away".into(),
            retry_after: None
        }),
    ]
}

fn any_update() -> impl Strategy<Value = UpdateAnswer> {
    prop_oneof![
        Just(UpdateAnswer::Acknowledged),
        Just(UpdateAnswer::Refused {
            reason: "bad params".into()
        }),
        Just(no_answer()),
    ]
}

/// One turn of a linkage's life: what the host does meanwhile, what the server answers, whether
/// the process dies in the middle, and how the clock moves.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)]
struct Turn {
    start: StartAnswer,
    poll: PollAnswer,
    cancel: CancelAnswer,
    update: UpdateAnswer,
    host_cancels: bool,
    /// While a call is under way, or just before a foreign host is told.
    host_cancels_meanwhile: bool,
    dies: bool,
    revoked: bool,
    acknowledged: bool,
    clock_ms: i64,
    jitter: f64,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    (
        (any_start(), any_poll(), any_cancel(), any_update()),
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.03),
        any::<bool>(),
        prop_oneof![9 => 0_i64..10_000, 1 => -2_000_000_000_000_i64..2_000_000_000],
        any::<f64>(),
    )
        .prop_map(
            |(
                (start, poll, cancel, update),
                host_cancels,
                host_cancels_meanwhile,
                dies,
                revoked,
                acknowledged,
                clock_ms,
                jitter,
            )| Turn {
                start,
                poll,
                cancel,
                update,
                host_cancels,
                host_cancels_meanwhile,
                dies,
                revoked,
                acknowledged,
                clock_ms,
                jitter,
            },
        )
}

fn any_submission() -> impl Strategy<Value = (Submission, HostKind)> {
    (
        0..3_usize,
        any::<bool>(),
        any::<bool>(),
        prop::option::of(0..100_000_u64),
    )
        .prop_map(|(policy, surfaces, foreign, deadline)| {
            let mut submission = submission().policy(StartPolicy::ALL[policy]);
            if surfaces {
                submission = submission.input(InputHandling::Surface);
            }
            submission.execution_deadline = deadline.map(Duration::from_millis);
            let host = if foreign {
                HostKind::Foreign
            } else {
                HostKind::Ledger
            };
            (submission, host)
        })
}

/// What a life's witness saw.
#[derive(Default)]
struct Seen {
    /// Starts that may have reached the server.
    sent: u32,
    result: bool,
    cancelled: bool,
}

/// The row after one turn.
fn lived(mut row: Linkage, turn: Turn, now: Moment, seen: &mut Seen) -> Linkage {
    let settings = Settings::default();
    let jitter = Jitter::new(turn.jitter);
    if turn.host_cancels && row.outcome.is_none() {
        row = settled(row, Outcome::cancelled_by_host(), now);
        seen.cancelled = true;
    }
    let mut facts = facts();
    if turn.revoked {
        facts.access = Access::Revoked {
            reason: "is disabled",
        };
    }
    facts.answers.insert("k".into(), json!({}));
    match next(&row, &facts, &settings, now) {
        Step::Settle(outcome) => settled(row, outcome, now),
        Step::Start(_) => {
            let sending = begun(row, now);
            // A dead sender proves nothing about what it sent.
            let unsent = matches!(turn.start, StartAnswer::NotSent { .. }) && !turn.dies;
            seen.sent += u32::from(!unsent);
            if turn.dies {
                return sending;
            }
            seen.result |= matches!(turn.start, StartAnswer::Result(_));
            if turn.host_cancels_meanwhile {
                seen.cancelled = true;
                let row = settled(sending, Outcome::cancelled_by_host(), now);
                late(row, turn.start, now)
            } else {
                started(sending, turn.start, &settings, now, jitter)
            }
        }
        Step::Poll(_) if turn.dies => row,
        Step::Poll(_) => {
            seen.result |= matches!(
                turn.poll,
                PollAnswer::State {
                    state: RemoteState::Completed(_),
                    ..
                }
            );
            polled(row, turn.poll, &settings, now, jitter)
        }
        Step::Update(..) => updated(row, &["k".into()], turn.update, &settings, now, jitter),
        Step::Deliver if turn.host_cancels_meanwhile => {
            seen.cancelled = true;
            suppressed(row, now)
        }
        Step::Deliver if turn.acknowledged => delivered(row, now),
        Step::Deliver => delivery_failed(row, "away".into(), &settings, now, jitter),
        Step::Cancel(_) => cancel_answered(row, turn.cancel, &settings, now, jitter),
        Step::Look(_) => looked(row, turn.poll, &settings, now, jitter),
        Step::Close { .. } => closed(row),
        Step::Rest => row,
    }
}

/// A server that nobody reaches, and a host that takes what it is told.
fn dead() -> Turn {
    Turn {
        start: StartAnswer::NotSent {
            reason: "refused".into(),
            retry_after: None,
        },
        poll: PollAnswer::Unavailable {
            reason: "refused".into(),
            retry_after: None,
        },
        cancel: CancelAnswer::Unavailable {
            reason: "refused".into(),
            retry_after: None,
        },
        update: no_answer(),
        host_cancels: false,
        host_cancels_meanwhile: false,
        dies: false,
        revoked: false,
        acknowledged: true,
        clock_ms: 0,
        jitter: 1.0,
    }
}

proptest! {
    #[test]
    fn every_life_keeps_the_five_invariants(
        (submission, host) in any_submission(),
        turns in prop::collection::vec(any_turn(), 1..60),
    ) {
        let settings = Settings::default();
        let mut now = T0;
        let mut row = Linkage::intent(&submission, host, now);
        let mut seen = Seen::default();
        for turn in turns {
            now = Moment::from_unix_ms(now.unix_ms().saturating_add(turn.clock_ms));
            let before = row.clone();
            let suppresses = turn.host_cancels_meanwhile;
            row = lived(row, turn, now, &mut seen);

            // 1. Written once; what a foreign host was never told, its own cancel takes back.
            let taken_back = suppresses
                && (before.phase, row.phase) == (Phase::Accepted, Phase::Cancelled);
            if before.outcome.is_some() && !taken_back {
                prop_assert_eq!(&before.outcome, &row.outcome);
                prop_assert_eq!(before.finished_at, row.finished_at);
            }
            if before.phase.is_final() {
                prop_assert_eq!(before.phase, row.phase);
            }
            // 2. Success only from a result.
            if let Some(outcome) = &row.outcome {
                if outcome.state() == ActionState::Completed {
                    prop_assert!(seen.result);
                    prop_assert!(outcome.result.as_ref().is_some_and(|result| !result.is_error));
                }
                prop_assert!(row.phase == outcome.phase || row.phase == Phase::Accepted);
            } else {
                prop_assert!(!row.phase.is_final() && row.phase != Phase::Accepted);
            }
            // 3. The cancel stays.
            if seen.cancelled {
                prop_assert_eq!(row.phase, Phase::Cancelled);
            }
            // 4. At most one start, and none that may have been sent is forgotten.
            if submission.policy == StartPolicy::AtMostOnce {
                prop_assert!(seen.sent <= 1, "{} starts", seen.sent);
                prop_assert!(row.starts <= 1);
            }
            prop_assert!(seen.sent <= settings.start_limit);
            prop_assert!(row.starts >= seen.sent);
            prop_assert!(row.sent_at.is_some() || seen.sent == 0);
            // 5. Something is due while something remains, and not at once after a failure.
            prop_assert_eq!(row.next_due.is_none(), row.is_at_rest());
            if row.trouble.errors > before.trouble.errors {
                let soon = now.after(settings.min_poll_interval.mul_f64(0.9));
                prop_assert!(row.next_due >= Some(soon) || row.next_due == row.deadline_at);
            }
            if let Some(due) = row.next_due.filter(|_| before.next_due != row.next_due) {
                prop_assert!(due.since(now) <= HORIZON);
            }
            // What names the remote task never changes.
            if let Some(known) = &before.remote {
                prop_assert_eq!(Some(&known.id), row.remote.as_ref().map(|remote| &remote.id));
            }
        }
    }

    #[test]
    fn every_life_ends_by_its_time_to_live_or_its_deadline_when_the_server_dies(
        (submission, host) in any_submission(),
        linked in prop::option::of(any_remote()),
        turns in prop::collection::vec(any_turn(), 0..10),
    ) {
        let mut now = T0;
        let mut row = Linkage::intent(&submission, host, now);
        if let Some(task) = linked {
            row = start(begun(row, now), StartAnswer::Task(task.clone()));
            if row.input == InputHandling::Surface {
                row = poll(row, PollAnswer::State { task, state: asks() });
            }
        }
        for turn in turns {
            // Within reach of the time to live.
            now = now.after(Duration::from_millis(turn.clock_ms.unsigned_abs().min(10_000)));
            row = lived(row, turn, now, &mut Seen::default());
        }
        let expiry = row.remote.as_ref().and(row.expires_at());
        let limit = match (row.deadline_at, expiry) {
            (Some(deadline), Some(expiry)) => Some(deadline.min(expiry)),
            (deadline, expiry) => deadline.or(expiry),
        };
        let limit = limit.filter(|limit| limit.since(now) < Duration::from_secs(86_400));
        // Three answers that do not come, after a Retry-After of an hour.
        let last = limit.map(|limit| limit.max(now).after(HORIZON + Duration::from_secs(240)));
        for _ in 0..3_000 {
            if row.is_at_rest() || last.is_some_and(|last| now > last) {
                break;
            }
            now = now.max(row.next_due.unwrap_or(now));
            row = lived(row, dead(), now, &mut Seen::default());
        }
        prop_assert!(limit.is_none() || row.outcome.is_some(), "{:?}", row);
    }
}
