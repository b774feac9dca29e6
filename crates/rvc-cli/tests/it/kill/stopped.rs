//! A supervisor that is stopped past its lease, while another one takes over.

use std::time::Duration;

use rvc_durable::store::{SqliteOptions, Store, StoreError};

use crate::durable::{Supervisor, World};

#[test]
fn a_supervisor_that_was_stopped_past_its_lease_changes_nothing() {
    for (step, phase, starts) in [
        ("claimed", "completed", 1),
        ("connected", "completed", 1),
        // Its start is taken for sent, so it stays unsent.
        ("sending_committed", "unknown", 0),
        // Nobody takes the answer.
        ("start_answered", "unknown", 1),
        ("poll_answered", "completed", 1),
        ("outcome_committed", "completed", 1),
    ] {
        let (world, first) = stopped_at(step);

        world.until_idle();
        let before = world.show("a");
        assert_eq!(before["phase"], phase, "{step}");
        first.signal("-CONT");
        first.signal("-TERM");
        assert_eq!(first.wait().code(), Some(0), "{step}");

        assert_eq!(world.show("a"), before, "{step}");
        assert_eq!(world.robot.starts("a"), starts, "{step}");
    }
}

/// An action whose supervisor is stopped at `step`, and not while it writes: that would stop
/// everybody else as well, until it goes on.
fn stopped_at(step: &str) -> (World, Supervisor) {
    loop {
        let world = World::new();
        world.start("a", "drive");
        let mut supervisor = world.supervisor(&[]);
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
    let output = std::process::Command::new("ps")
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
        let registrations = store.registrations(None).await?;
        store.put_registration(registrations[0].clone()).await
    });
    match written {
        Ok(()) => true,
        Err(StoreError::Locked { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}
