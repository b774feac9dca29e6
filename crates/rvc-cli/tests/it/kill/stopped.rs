//! A supervisor that is stopped past its lease, while another one takes over.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use rvc_durable::store::{SqliteOptions, Store, StoreError};

use super::{answered, cancelled, foreign, registration};
use crate::durable::{Supervisor, World};

/// The steps of a life without an answer or a cancel: the phase and the starts at the server in the
/// end.
const LIFE: [(&str, &str, u32); 8] = [
    ("claimed", "completed", 1),
    ("connected", "completed", 1),
    // Its start is taken for sent, so it stays unsent.
    ("sending_committed", "unknown", 0),
    // Nobody takes the answer.
    ("start_answered", "unknown", 1),
    ("link_committed", "completed", 1),
    ("poll_answered", "completed", 1),
    ("poll_committed", "completed", 1),
    ("outcome_committed", "completed", 1),
];

const ANSWER: [&str; 1] = ["input_sent"];

const CANCEL: [&str; 2] = ["cancel_asked", "cancel_committed"];

const DELIVERY: [&str; 2] = ["delivered", "delivery_committed"];

/// Where a supervisor is stopped by one of the tests.
pub(super) fn steps() -> BTreeSet<&'static str> {
    let life = LIFE.map(|(step, ..)| step);
    let steps = [&life[..], &ANSWER, &CANCEL, &DELIVERY].concat();
    steps.into_iter().collect()
}

#[test]
fn a_supervisor_that_was_stopped_past_its_lease_changes_nothing() {
    for (step, phase, starts) in LIFE {
        let started = || {
            let world = World::new();
            world.start("a", "drive");
            world
        };
        let world = stopped_at(step, started, World::supervisor, phase);
        assert_eq!(world.robot.starts("a"), starts, "{step}");
    }
}

#[test]
fn a_supervisor_that_was_stopped_past_its_lease_after_an_answer_changes_nothing() {
    for step in ANSWER {
        let world = stopped_at(step, answered, World::supervisor, "completed");
        assert_eq!(world.robot.starts("a"), 1, "{step}");
    }
}

#[test]
fn a_supervisor_that_was_stopped_past_its_lease_around_a_cancel_changes_nothing() {
    for step in CANCEL {
        let roaming = || cancelled("roam");
        let world = stopped_at(step, roaming, World::supervisor, "cancelled");
        assert_eq!(world.robot.starts("a"), 1, "{step}");
        assert!(world.robot.cancels("a") >= 1, "{step}");
        assert_eq!(world.show("a")["remote_status"], "cancelled", "{step}");
    }
}

#[test]
fn a_supervisor_that_was_stopped_past_its_lease_around_a_delivery_repeats_nothing() {
    for step in DELIVERY {
        let world = stopped_at(step, foreign::submitted, foreign::supervisor, "completed");
        assert_eq!(world.robot.starts("a"), 1, "{step}");
        let log = foreign::log(&world);
        let taken = |line: &&str| line.ends_with(" deliver a completed");
        let deliveries = log.lines().filter(taken).count();
        assert_eq!(deliveries, 1, "{step}: {log}");
    }
}

/// Stops a supervisor at `step`, lets another one take over until nothing is left to do, and has the
/// first go on: the action stays as it is.
fn stopped_at(
    step: &str,
    prepared: impl Fn() -> World,
    supervisor: fn(&World, &[&str]) -> Command,
    phase: &str,
) -> World {
    let (world, first) = stopped(step, prepared, supervisor);

    let second = crate::rvc::answer(&mut supervisor(&world, &["--until-idle"]), "");
    assert_eq!(second.code, 0, "{step}: {}", second.stderr);
    let before = world.show("a");
    assert_eq!(before["phase"], phase, "{step}");
    first.signal("-CONT");
    first.signal("-TERM");
    assert_eq!(first.wait().code(), Some(0), "{step}");

    assert_eq!(world.show("a"), before, "{step}");
    world
}

/// A supervisor that is stopped at `step`, and not while it writes: that would stop everybody else
/// as well, until it goes on.
fn stopped(
    step: &str,
    prepared: impl Fn() -> World,
    supervisor: fn(&World, &[&str]) -> Command,
) -> (World, Supervisor) {
    loop {
        let world = prepared();
        let mut supervisor = supervisor(&world, &[]);
        supervisor.env("RVC_SIGNAL_AT", format!("{step}=STOP"));
        let supervisor = Supervisor::spawn(&mut supervisor);
        while !is_stopped(&supervisor) {
            std::thread::sleep(Duration::from_millis(10));
        }
        if can_write(&world) {
            return (world, supervisor);
        }
    }
}

fn is_stopped(supervisor: &Supervisor) -> bool {
    let output = Command::new("ps")
        .args(["-o", "stat=", "-p", &supervisor.pid().to_string()])
        .output()
        .unwrap();
    let state = String::from_utf8(output.stdout).unwrap();
    assert!(!state.is_empty(), "it ended before it was stopped");
    state.starts_with('T')
}

fn can_write(world: &World) -> bool {
    if !world.is_on_a_file() {
        // There nobody waits for long: the server ends a transaction that does not go on.
        return true;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let written = runtime.block_on(async {
        let options = SqliteOptions::file(world.db()).busy_timeout(Duration::from_millis(500));
        let store = options.open()?;
        store.put_registration(registration(world)).await
    });
    match written {
        Ok(()) => true,
        Err(StoreError::Locked { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}
