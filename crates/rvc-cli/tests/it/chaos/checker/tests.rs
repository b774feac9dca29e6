use super::super::history::{Entry, Outcome, Row, Seen, Submitted, Work, Wrote};
use super::super::schedule::Fault;
use super::check;

/// A history that is written line by line, a millisecond apart.
#[derive(Clone)]
struct Tale(Vec<Entry>);

const A: &str = "a";
/// The supervisor that does everything.
const HOLDER: usize = 2;
const VALUE: &str = "<a 0/1/0>";

impl Tale {
    /// An action that was submitted, and linked to what it started.
    fn begun(tool: &str, policy: &str) -> Self {
        let mut tale = Self(Vec::new());
        tale.tell(Seen::Submitting(Submitted {
            action: A.to_owned(),
            run: "r".to_owned(),
            is_foreign: false,
            server: 0,
            tool: tool.to_owned(),
            policy: policy.to_owned(),
            deadline_ms: None,
        }));
        tale.tell(wrote("action", "INSERT", "1", None, Some("pending")));
        tale.tell(Seen::Submitted {
            action: A.to_owned(),
        });
        tale.tell(wrote(
            "phase",
            "UPDATE",
            "2",
            Some("intent"),
            Some("sending"),
        ));
        tale.tell(Seen::Start(work(0, 1, VALUE)));
        tale
    }

    /// `drive` under `at_most_once`, which ended well.
    fn good() -> Self {
        Self::begun("drive", "at_most_once")
            .and(wrote("linkage", "UPDATE", "3", None, Some("task")))
            .and(wrote(
                "phase",
                "UPDATE",
                "3",
                Some("sending"),
                Some("working"),
            ))
            .and(Seen::End(work(0, 1, VALUE)))
            .ended("working", "completed", None, VALUE)
    }

    /// An outcome as it is written, told and left in the row.
    fn ended(self, before: &str, phase: &str, code: Option<&str>, said: &str) -> Self {
        let state = match phase {
            "completed" | "cancelled" => phase,
            _ => "failed",
        };
        let told = format!("{phase} {}", code.unwrap_or_default());
        self.and(wrote("outcome", "INSERT", "4", None, Some(&told)))
            .and(wrote("action", "UPDATE", "4", Some("pending"), Some(state)))
            .and(wrote("phase", "UPDATE", "4", Some(before), Some(phase)))
            .and(outcome(phase, code, said))
            .and(Seen::Row(Row {
                action: A.to_owned(),
                phase: phase.to_owned(),
                state: state.to_owned(),
                is_open: false,
                starts: 1,
                remote_task: Some("task".to_owned()),
                cancels_asked: 0,
            }))
    }

    fn and(mut self, seen: Seen) -> Self {
        self.tell(seen);
        self
    }

    fn tell(&mut self, seen: Seen) {
        let at = self.0.last().map_or(100_000_000, |last| last.at + 1_000);
        self.0.push(Entry { at, seen });
    }

    /// With a line that comes later by `seconds`.
    fn after(mut self, seconds: u64, seen: Seen) -> Self {
        let at = self.0.last().unwrap().at + seconds * 1_000_000;
        self.0.push(Entry { at, seen });
        self
    }

    /// With a line before the one that `is_it`.
    fn before(mut self, is_it: impl Fn(&Seen) -> bool, seen: Seen) -> Self {
        let place = self.0.iter().position(|entry| is_it(&entry.seen)).unwrap();
        let at = self.0[place].at - 1;
        self.0.insert(place, Entry { at, seen });
        self
    }

    fn without(mut self, is_it: impl Fn(&Seen) -> bool) -> Self {
        let before = self.0.len();
        self.0.retain(|entry| !is_it(&entry.seen));
        assert!(self.0.len() < before, "there is no such line");
        self
    }

    fn changed(mut self, change: impl Fn(&mut Seen)) -> Self {
        let before = self.0.clone();
        self.0.iter_mut().for_each(|entry| change(&mut entry.seen));
        assert_ne!(self.0, before, "nothing was changed");
        self
    }

    /// With the outcome written as `told`, in another transaction perhaps.
    fn with_outcome_written_as(self, told: &str, transaction: &str) -> Self {
        self.changed(|seen| {
            if let Seen::Wrote(wrote) = seen
                && wrote.what == "outcome"
            {
                wrote.after = Some(told.to_owned());
                transaction.clone_into(&mut wrote.transaction);
            }
        })
    }

    fn violations(&self) -> Vec<String> {
        let found = check(&self.0);
        found.iter().map(ToString::to_string).collect()
    }
}

fn work(server: usize, life: u32, value: &str) -> Work {
    Work {
        action: A.to_owned(),
        server,
        life,
        value: value.to_owned(),
        status: "completed".to_owned(),
    }
}

fn wrote(
    what: &str,
    change: &str,
    transaction: &str,
    before: Option<&str>,
    after: Option<&str>,
) -> Seen {
    Seen::Wrote(Wrote {
        transaction: transaction.to_owned(),
        writer: format!("supervisor-{HOLDER}"),
        what: what.to_owned(),
        change: change.to_owned(),
        action: A.to_owned(),
        before: before.map(str::to_owned),
        after: after.map(str::to_owned),
    })
}

fn outcome(phase: &str, code: Option<&str>, said: &str) -> Seen {
    Seen::Outcome(Outcome {
        action: A.to_owned(),
        phase: phase.to_owned(),
        error_code: code.map(str::to_owned),
        said: said.to_owned(),
    })
}

fn began(fault: Fault) -> Seen {
    Seen::FaultBegan { fault }
}

/// `drive` for a foreign host, up to its outcome.
fn accepted() -> Tale {
    Tale::begun("drive", "at_most_once")
        .without(is_written("action"))
        .changed(|seen| {
            if let Seen::Submitting(it) = seen {
                it.is_foreign = true;
            }
        })
        .and(wrote(
            "phase",
            "UPDATE",
            "3",
            Some("sending"),
            Some("working"),
        ))
        .and(Seen::End(work(0, 1, VALUE)))
        .and(wrote("outcome", "INSERT", "4", None, Some("completed ")))
        .and(wrote(
            "phase",
            "UPDATE",
            "4",
            Some("working"),
            Some("accepted"),
        ))
}

impl Tale {
    fn delivered_by(self, process: u32) -> Self {
        let action = A.to_owned();
        let (run, phase) = ("r".to_owned(), "completed".to_owned());
        self.and(Seen::Looked {
            process,
            action: action.clone(),
        })
        .and(Seen::AskedForRun { process, run })
        .and(Seen::Delivering {
            process,
            action,
            phase,
        })
    }

    fn finished(self, state: &str) -> Self {
        self.and(Seen::Finishing {
            action: A.to_owned(),
            state: state.to_owned(),
        })
    }

    /// With the end of a foreign host's action, and what the host has of it.
    fn left(self, phase: &str, taken: Option<&str>) -> Self {
        let code = (phase == "cancelled").then_some("CANCELLED");
        let said = if code.is_none() { VALUE } else { "" };
        let tale = self
            .and(wrote("phase", "UPDATE", "5", Some("accepted"), Some(phase)))
            .and(outcome(phase, code, said))
            .and(Seen::Row(Row {
                action: A.to_owned(),
                phase: phase.to_owned(),
                state: "foreign".to_owned(),
                is_open: false,
                starts: 1,
                remote_task: None,
                cancels_asked: 0,
            }));
        taken.into_iter().fold(tale, |tale, taken| {
            tale.and(Seen::Delivered {
                action: A.to_owned(),
                phase: taken.to_owned(),
            })
        })
    }
}

#[test]
fn what_a_foreign_host_may_be_told_is_not_blamed() {
    let once = || accepted().delivered_by(7);
    for (name, tale) in [
        (
            "once",
            once()
                .finished("completed")
                .left("completed", Some("completed")),
        ),
        (
            "by two that raced",
            once()
                .delivered_by(8)
                .finished("completed")
                .finished("completed")
                .left("completed", Some("completed")),
        ),
        (
            "suppressed",
            accepted()
                .and(cancelling())
                .and(cancelled())
                .left("cancelled", None),
        ),
        (
            "overtaken by its cancel",
            once()
                .and(cancelling())
                .and(cancelled())
                .finished("completed")
                .left("completed", Some("completed")),
        ),
    ] {
        assert_eq!(tale.violations(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_a_foreign_host_was_told_twice_wrongly_or_too_late_is_seen() {
    let once = || accepted().delivered_by(7);
    let cancel = |tale: Tale| tale.and(cancelling()).and(cancelled());
    let is_question = |seen: &Seen| matches!(seen, Seen::AskedForRun { .. });
    assert_blamed(&[
        ("the host took []", accepted().left("completed", None)),
        (
            "the host took [\"failed\"]",
            once()
                .finished("completed")
                .left("completed", Some("failed")),
        ),
        (
            "it ended at the host as []",
            once().left("completed", Some("completed")),
        ),
        (
            "it ended at the host as",
            once()
                .finished("failed")
                .left("completed", Some("completed")),
        ),
        (
            "the host was not asked before",
            once()
                .without(is_question)
                .finished("completed")
                .left("completed", Some("completed")),
        ),
        (
            "it was delivered again",
            once()
                .finished("completed")
                .delivered_by(8)
                .finished("completed")
                .left("completed", Some("completed")),
        ),
        (
            "had said that it is cancelled",
            cancel(accepted())
                .delivered_by(7)
                .finished("completed")
                .left("completed", Some("completed")),
        ),
        (
            "nobody had asked for that",
            accepted().left("cancelled", None),
        ),
        (
            "a phase went astray",
            once()
                .finished("completed")
                .left("completed", Some("completed"))
                .changed(|seen| {
                    if let Seen::Submitting(it) = seen {
                        it.is_foreign = false;
                    }
                }),
        ),
    ]);
}

fn cancelling() -> Seen {
    Seen::Cancelling {
        action: A.to_owned(),
    }
}

fn cancelled() -> Seen {
    Seen::Cancelled {
        action: A.to_owned(),
    }
}

fn is_written(what: &'static str) -> impl Fn(&Seen) -> bool {
    move |seen| matches!(seen, Seen::Wrote(wrote) if wrote.what == what)
}

fn unknown() -> Tale {
    let code = Some("START_OUTCOME_UNKNOWN");
    Tale::begun("drive", "at_most_once").ended("sending", "unknown", code, "lost")
}

/// The same, since another supervisor took over.
fn ran_out() -> Tale {
    unknown().changed(|seen| {
        if let Seen::Outcome(outcome) = seen {
            "the process ended before it recorded an answer".clone_into(&mut outcome.said);
        }
    })
}

/// Many actions, each with a name of its own.
fn many(tales: impl IntoIterator<Item = Tale>) -> Tale {
    let named = tales.into_iter().enumerate().map(|(n, tale)| {
        tale.changed(|seen| {
            let json = serde_json::to_string(&seen).unwrap();
            let json = json.replace("\"a\"", &format!("\"a{n}\""));
            *seen = serde_json::from_str(&json).unwrap();
        })
    });
    Tale(named.flat_map(|tale| tale.0).collect())
}

fn times(count: usize, tale: fn() -> Tale) -> impl Iterator<Item = Tale> {
    std::iter::repeat_with(tale).take(count)
}

/// A fault that is over before the tale begins, by so many seconds.
fn after_a_fault(seconds: u64, fault: Fault, mut tale: Tale) -> Tale {
    let at = tale.0[0].at - seconds * 1_000_000;
    let seen = [Seen::FaultBegan { fault }, Seen::FaultEnded { fault }];
    let entries = seen.map(|seen| Entry { at, seen });
    tale.0.splice(0..0, entries);
    tale
}

#[test]
fn a_lease_in_a_hundred_may_run_out_by_itself() {
    let tale = many(times(1, ran_out).chain(times(99, Tale::good)));
    assert_eq!(tale.violations(), Vec::<String>::new());
}

#[test]
fn a_run_in_which_too_little_comes_off_is_seen() {
    let lost = || unknown().before(is_written("outcome"), began(Fault::CutServer(0)));
    let enough = many(times(20, Tale::good).chain(times(10, lost)));
    let too_few = many(times(17, Tale::good).chain(times(13, lost)));
    // What was meant to end otherwise counts for nothing.
    let refused = || {
        Tale::begun("roam", "at_most_once")
            .and(cancelling())
            .ended("sending", "cancelled", Some("CANCELLED"), "")
            .and(cancelled())
            .and(Seen::CancelReceived(work(0, 1, VALUE)))
    };
    let padded = many(times(30, lost).chain(times(90, refused)));
    // Explained, since it had just ended; but then there was no more to fear.
    let calm = |lost, good| {
        let tale = many(times(lost, ran_out).chain(times(good, Tale::good)));
        after_a_fault(3, Fault::CrashDatabase, tale)
    };

    assert_eq!(enough.violations(), Vec::<String>::new());
    assert_blamed(&[
        ("over the whole run: 17 of 30", too_few),
        ("over the whole run: 0 of 30", padded),
        ("after the last fault: 37 of 40", calm(3, 37)),
    ]);
    let found = calm(2, 38).violations();
    assert!(
        !found.iter().any(|it| it.contains("after the last")),
        "{found:?}"
    );
}

#[test]
fn good_histories_are_not_blamed() {
    let failed = Tale::begun("beep", "idempotent_tool")
        .and(Seen::Start(work(0, 1, "<a 0/1/1>")))
        .and(Seen::End(work(0, 1, "<a 0/1/1>")))
        .ended("sending", "completed", None, "<a 0/1/1>");
    let cancelled = Tale::begun("roam", "at_most_once")
        .and(cancelling())
        .ended("sending", "cancelled", Some("CANCELLED"), "")
        .and(cancelled())
        .and(Seen::CancelReceived(work(0, 1, VALUE)));
    // By its run, and by itself when that was done.
    let twice = Tale::begun("roam", "at_most_once")
        .and(Seen::CancellingRun {
            run: "r".to_owned(),
        })
        .ended("sending", "cancelled", Some("CANCELLED"), "")
        .and(cancelling())
        .and(Seen::CancelledTooLate {
            action: A.to_owned(),
        })
        .and(Seen::CancelReceived(work(0, 1, VALUE)));
    let lost = unknown().before(is_written("outcome"), began(Fault::CutServer(0)));
    let forsaken = |fault| ran_out().before(is_written("outcome"), began(fault));
    for (name, tale) in [
        ("good", Tale::good()),
        ("a second start that the policy allows", failed),
        ("cancelled", cancelled),
        ("cancelled twice", twice),
        ("lost", lost),
        ("killed", forsaken(Fault::KillSupervisor(HOLDER))),
        ("cut off", forsaken(Fault::StallDatabase(HOLDER))),
        ("crashed", forsaken(Fault::CrashDatabase)),
    ] {
        assert_eq!(tale.violations(), Vec::<String>::new(), "{name}");
    }
}

/// Each history is blamed, and for what is said beside it.
fn assert_blamed(cases: &[(&str, Tale)]) {
    for (expected, tale) in cases {
        let found = tale.violations();
        assert!(
            found.iter().any(|violation| violation.contains(expected)),
            "{expected}: {found:?}"
        );
    }
}

#[test]
fn an_action_without_its_one_outcome_is_seen() {
    let good = Tale::good;
    let is_outcome = |seen: &Seen| matches!(seen, Seen::Outcome(_));
    let is_row = |seen: &Seen| matches!(seen, Seen::Row(_));
    let is_submitted = |seen: &Seen| matches!(seen, Seen::Submitted { .. });
    let open = good().changed(|seen| {
        if let Seen::Row(row) = seen {
            row.is_open = true;
        }
    });
    assert_blamed(&[
        ("no outcome", good().without(is_outcome)),
        (
            "two outcomes",
            good().and(outcome("failed", Some("TOOL_ERROR"), "")),
        ),
        (
            "told completed",
            good().with_outcome_written_as("failed TOOL_ERROR", "4"),
        ),
        ("it is stuck", open),
        ("is not there", good().without(is_row)),
        (
            "neither acknowledged nor refused",
            good().without(is_submitted),
        ),
    ]);
}

#[test]
fn starts_that_must_not_be_are_seen() {
    let dedup = Tale::begun("drive", "server_dedup");
    let many = (1..6).fold(Tale::begun("drive", "idempotent_tool"), |tale, _| {
        tale.and(Seen::Start(work(0, 1, VALUE)))
    });
    assert_blamed(&[
        (
            "2 starts under at_most_once",
            Tale::good().and(Seen::Start(work(0, 2, "<a 0/2/0>"))),
        ),
        (
            "at another server",
            Tale::good().and(Seen::Start(work(1, 1, "<a 1/1/0>"))),
        ),
        (
            "its key was another one",
            dedup.and(Seen::Start(work(0, 1, "<a 0/1/1>"))),
        ),
        ("6 starts", many),
    ]);
}

#[test]
fn what_the_database_wrote_twice_or_astray_is_seen() {
    let good = Tale::good;
    let again = |what, change, before, after| good().and(wrote(what, change, "5", before, after));
    assert_blamed(&[
        (
            "outcome was not written once",
            again("outcome", "INSERT", None, Some("completed ")),
        ),
        (
            "outcome was not written once",
            again("outcome", "UPDATE", Some("completed "), Some("failed ")),
        ),
        (
            "state did not change once",
            again("action", "UPDATE", Some("completed"), Some("failed")),
        ),
        (
            "state and outcome apart",
            good().with_outcome_written_as("completed ", "5"),
        ),
        (
            "a phase went astray",
            again("phase", "UPDATE", Some("completed"), Some("working")),
        ),
        (
            "a phase went astray",
            again("phase", "UPDATE", Some("working"), Some("sending")),
        ),
        (
            "linked more than once",
            again("linkage", "UPDATE", Some("task"), Some("other")),
        ),
    ]);
}

#[test]
fn a_cancel_that_was_overruled_ignored_or_never_asked_for_is_seen() {
    let roam = || Tale::begun("roam", "at_most_once");
    let run_cancelled = Seen::CancelledRun {
        run: "r".to_owned(),
    };
    assert_blamed(&[
        (
            "its cancel was acknowledged",
            Tale::good().and(cancelling()).and(cancelled()),
        ),
        (
            "its run was cancelled before it ended",
            Tale::good().before(is_written("outcome"), run_cancelled),
        ),
        (
            "nobody had asked for that",
            roam()
                .ended("sending", "cancelled", Some("CANCELLED"), "")
                .and(cancelling()),
        ),
        (
            "was never asked to cancel",
            roam()
                .and(cancelling())
                .ended("working", "cancelled", Some("CANCELLED"), ""),
        ),
    ]);
}

#[test]
fn a_result_that_is_not_its_own_is_seen() {
    let is_end = |seen: &Seen| matches!(seen, Seen::End(_));
    let foreign = Tale::good().changed(|seen| {
        if let Seen::Outcome(outcome) = seen {
            "<b 0/1/0>".clone_into(&mut outcome.said);
        }
    });
    assert_blamed(&[
        ("no end of its own", foreign),
        ("no end of its own", Tale::good().without(is_end)),
        (
            "cannot succeed",
            Tale::begun("roam", "at_most_once")
                .and(Seen::End(work(0, 1, VALUE)))
                .ended("sending", "completed", None, VALUE),
        ),
    ]);
}

#[test]
fn a_failure_that_no_fault_explains_is_seen() {
    let failed =
        |code| Tale::begun("drive", "at_most_once").ended("working", "failed", Some(code), "");
    let ended = Seen::SupervisorEnded {
        supervisor: 0,
        status: "exit status: 2".to_owned(),
    };
    assert_blamed(&[
        ("nothing explains", unknown()),
        ("the lease of its start ran out", ran_out()),
        ("nothing explains", failed("REMOTE_TASK_MISSING")),
        ("nothing explains", failed("EXECUTION_DEADLINE_EXCEEDED")),
        ("nothing explains", failed("REMOTE_PROTOCOL_ERROR")),
        ("its database was there", Tale::good().after(60, ended)),
    ]);
}

#[test]
fn a_fault_that_could_not_lose_a_start_does_not_explain_it() {
    let (lost, forsaken) = ("nothing explains Outcome", "the lease of its start ran out");
    for (said, tale, fault) in [
        // Of another server, of another supervisor, of its way to the database.
        (lost, unknown(), Fault::CutServer(1)),
        (lost, unknown(), Fault::StopSupervisor(0)),
        (lost, unknown(), Fault::CrashDatabase),
        (forsaken, ran_out(), Fault::KillSupervisor(0)),
        (forsaken, ran_out(), Fault::StopSupervisor(1)),
        (forsaken, ran_out(), Fault::StallDatabase(3)),
        // The host's link.
        (forsaken, ran_out(), Fault::CutDatabase(4)),
        // The holder waits for its server, whatever that does, and ends in order.
        (forsaken, ran_out(), Fault::RestartServer(0)),
        (forsaken, ran_out(), Fault::EndSupervisor(HOLDER)),
    ] {
        let tale = tale.before(is_written("outcome"), began(fault));
        let found = tale.violations();
        assert!(
            found.iter().any(|it| it.contains(said)),
            "{fault:?}: {found:?}"
        );
    }
    let by_nobody = ran_out()
        .before(is_written("outcome"), began(Fault::CrashDatabase))
        .changed(|seen| {
            if let Seen::Wrote(wrote) = seen {
                "host".clone_into(&mut wrote.writer);
            }
        });
    assert_blamed(&[
        (lost, after_a_fault(60, Fault::CutServer(0), unknown())),
        (forsaken, by_nobody),
    ]);
}
