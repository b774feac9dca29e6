//! A wall clock that jumps between restarts.

use std::time::SystemTime;

use rvc_durable::SupervisorOptions;
use rvc_durable::store::Filter;
use rvc_durable::{Phase, Submission};
use serde_json::json;

use super::{host, registration};
use crate::durable::{Supervisor, World};

const ROWS: usize = 1000;

#[test]
fn a_clock_set_to_1970_between_restarts_lets_1000_open_actions_finish() {
    // A server has a clock of its own.
    let world = World::on_a_file();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let host = runtime.block_on(host(&world, SupervisorOptions::new()));
    runtime.block_on(async {
        host.put_registration(registration(&world)).await.unwrap();
        for n in 0..ROWS {
            let action = format!("a-{n}");
            let arguments = json!({"key": action, "polls": 2})
                .as_object()
                .unwrap()
                .clone();
            let submission =
                Submission::new(action.parse().unwrap(), "robot".parse().unwrap(), "drive");
            host.submit(submission.arguments(arguments)).await.unwrap();
        }
    });
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    // The right time, 1970, and the right time again: each process leaves leases and due times
    // to the next one.
    for offset in [0, -i64::try_from(now).unwrap()] {
        let mut supervisor = world.supervisor(&[]);
        supervisor.env("RVC_CLOCK_OFFSET", offset.to_string());
        let mut supervisor = Supervisor::spawn(&mut supervisor);
        for _ in 0..200 {
            supervisor.next();
        }
        supervisor.kill();
    }

    world.until_idle();

    let rows = runtime.block_on(host.actions(Filter::all())).unwrap();
    assert_eq!(rows.len(), ROWS);
    let mut completed = 0;
    for row in rows {
        let starts = world.robot.starts(row.action.as_str());
        assert!(starts <= 1, "{} was started {starts} times", row.action);
        match row.phase {
            Phase::Completed => completed += 1,
            // In hand when its process was killed.
            Phase::Unknown => {}
            phase => panic!("{} ended as {phase}", row.action),
        }
    }
    assert!(completed >= ROWS - 2 * 8, "only {completed} ended well");
}
