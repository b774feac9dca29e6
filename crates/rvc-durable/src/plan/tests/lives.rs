//! Whole lives of a row: any order of answers, faults and clocks.

use proptest::prelude::*;

use super::*;

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
