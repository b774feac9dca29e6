//! The supervisor as a child process that is killed, stopped and started again.
//!
//! `Delivered` and `DeliveryCommitted` are steps of a foreign host, see `foreign`; with the
//! ledger, outcome and action commit together.

mod clock;
pub(crate) mod foreign;
mod random;
mod stopped;

use std::collections::{BTreeSet, HashMap};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use rvc_durable::remote::HttpDialer;
use rvc_durable::store::{PostgresStore, SqliteStore};
use rvc_durable::{Durable, DurableStep, OwnerId, Registration, SupervisorOptions, TransportKind};
use serde_json::{Value, json};

use crate::durable::{Supervisor, World};

/// The outcomes that were seen, which may never change and never go.
#[derive(Default)]
struct Outcomes(HashMap<String, Value>);

impl Outcomes {
    /// Compares what is there with what was there before.
    fn check(&mut self, views: Vec<Value>) {
        let mut missing = self.0.clone();
        for view in views {
            let action = view["action_id"].as_str().unwrap().to_owned();
            let before = missing.remove(&action);
            if view["action_state"] == "pending" {
                assert_eq!(before, None, "{action} lost its outcome");
                continue;
            }
            let outcome = json!([
                view["phase"],
                view["error_code"],
                view["message"],
                view["result"]
            ]);
            if let Some(before) = before {
                assert_eq!(before, outcome, "the outcome of {action} changed");
            }
            self.0.insert(action, outcome);
        }
        assert!(missing.is_empty(), "actions are gone: {missing:?}");
    }
}

/// Submits and asks on a world's database, and supervises nothing.
async fn host(world: &World, options: SupervisorOptions) -> Durable {
    let dialer = HttpDialer::new().unwrap();
    if world.is_on_a_file() {
        Durable::new(SqliteStore::open(world.db()).unwrap(), dialer, options)
    } else {
        let store = PostgresStore::open(&world.db()).await.unwrap();
        Durable::new(store, dialer, options)
    }
}

/// The world's server, as `robot`.
fn registration(world: &World) -> Registration {
    Registration {
        id: "robot".parse().unwrap(),
        owner: OwnerId::local(),
        endpoint: world.robot.url.parse().unwrap(),
        transport: TransportKind::StreamableHttp,
        enabled: true,
    }
}

/// A world whose action has asked, and was answered since; the answer is not at the server.
fn answered() -> World {
    let world = World::new();
    world.start("a", "ask");
    let mut supervisor = Supervisor::spawn(&mut world.supervisor(&[]));
    supervisor.wait_for("input_required");
    supervisor.kill();
    let yes = r#"confirm={"action": "accept", "content": {}}"#;
    world.json(&["action", "answer", "a", "--input", yes]);
    world
}

/// A world whose action has started, and was cancelled since; the server does not know.
fn cancelled(tool: &str) -> World {
    let world = World::new();
    let url = world.robot.url.clone();
    let mut start = vec!["action", "start", "--url", &url, "--action-id", "a"];
    start.extend(["--tool", tool, "--args-json"]);
    start.push(r#"{"key": "a", "polls": 1000000}"#);
    world.json(&start);
    let mut supervisor = Supervisor::spawn(&mut world.supervisor(&[]));
    supervisor.wait_for("working");
    supervisor.kill();
    world.json(&["action", "cancel", "a"]);
    world
}

/// Supervises, and is killed where `step` is reached.
fn killed_at(world: &World, step: &str) {
    let mut supervisor = world.supervisor(&[]);
    supervisor.env("RVC_SIGNAL_AT", format!("{step}=KILL"));
    let ended = Supervisor::spawn(&mut supervisor).wait();
    assert_eq!(ended.signal(), Some(9), "{step}: {ended}");
}

/// The action after all is over: its phase, its error code, and the starts that were counted
/// here and at the server.
fn end(world: &World, action: &str) -> (String, Value, u64, u32) {
    world.until_idle();
    let view = world.show(action);
    (
        view["phase"].as_str().unwrap().to_owned(),
        view["error_code"].clone(),
        view["starts"].as_u64().unwrap(),
        world.robot.starts(action),
    )
}

/// The steps of a life without an answer or a cancel. A kill there: the action's phase and error
/// code in the end, and its starts as they are known here and at the server.
fn life() -> [(&'static str, &'static str, Value, u64, u32); 8] {
    let unknown = || json!("START_OUTCOME_UNKNOWN");
    [
        ("claimed", "completed", Value::Null, 1, 1),
        ("connected", "completed", Value::Null, 1, 1),
        // Not a byte was sent, which nobody but the dead process knew.
        ("sending_committed", "unknown", unknown(), 1, 0),
        ("start_answered", "unknown", unknown(), 1, 1),
        ("link_committed", "completed", Value::Null, 1, 1),
        ("poll_answered", "completed", Value::Null, 1, 1),
        ("poll_committed", "completed", Value::Null, 1, 1),
        ("outcome_committed", "completed", Value::Null, 1, 1),
    ]
}

const ANSWER: [&str; 2] = ["input_sent", "poll_committed"];

const CANCEL: [&str; 2] = ["cancel_asked", "cancel_committed"];

#[test]
fn there_is_a_kill_and_a_stop_at_every_durable_step() {
    let all = DurableStep::ALL.map(DurableStep::as_str);
    let all: BTreeSet<&str> = all.into_iter().collect();
    let life = life().map(|(step, ..)| step);
    let delivery = foreign::DELIVERY.map(|(step, ..)| step);
    let killed = [&life[..], &ANSWER, &CANCEL, &delivery].concat();
    assert_eq!(killed.into_iter().collect::<BTreeSet<_>>(), all);
    assert_eq!(stopped::steps(), all);
}

#[test]
fn a_kill_at_any_step_of_a_life_leaves_one_start_at_most_and_one_outcome() {
    for (step, phase, code, starts, counted) in life() {
        for tool in ["drive", "dock"] {
            let world = World::new();
            world.start("a", tool);
            killed_at(&world, step);
            let mut outcomes = Outcomes::default();
            outcomes.check(world.json(&["action", "list"]));

            let found = end(&world, "a");

            let expected = (phase.to_owned(), code.clone(), starts, counted);
            assert_eq!(found, expected, "{tool} at {step}");
            outcomes.check(world.json(&["action", "list"]));
            assert_eq!(outcomes.0.len(), 1);
        }
    }
}

#[test]
fn what_a_killed_supervisor_holds_is_left_alone_until_its_lease_is_over_and_taken_then() {
    let world = World::new();
    world.start("a", "drive");
    let mut first = world.command(&["supervise", "--json", "--lease", "1h"]);
    first.env("RVC_SIGNAL_AT", "sending_committed=KILL");
    let ended = Supervisor::spawn(&mut first).wait();
    assert_eq!(ended.signal(), Some(9), "{ended}");

    // It finds everything that is due, and so would it find this.
    world.start("b", "drive");
    let second = Supervisor::spawn(&mut world.supervisor(&[]));
    while world.show("b")["phase"] != "completed" {
        std::thread::sleep(Duration::from_millis(10));
    }
    second.kill();
    assert_eq!(world.show("a")["phase"], "sending");

    let mut third = world.supervisor(&["--until-idle"]);
    if world.is_on_a_file() {
        third.env("RVC_CLOCK_OFFSET", "3600");
    } else {
        // A server has a clock of its own.
        let hour = "UPDATE mcp_action_tasks SET lease_until = lease_until - 3600000";
        let psql = Command::new("psql")
            .args([&world.db(), "-c", hour])
            .output();
        assert!(psql.unwrap().status.success());
    }
    let ended = crate::rvc::answer(&mut third, "");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(world.show("a")["error_code"], "START_OUTCOME_UNKNOWN");
    assert_eq!(world.robot.starts("a"), 0);
}

#[test]
fn a_kill_around_an_answer_loses_neither_the_answer_nor_the_outcome() {
    for step in ANSWER {
        let world = answered();
        killed_at(&world, step);

        let found = end(&world, "a");

        assert_eq!(found, ("completed".into(), Value::Null, 1, 1), "{step}");
    }
}

#[test]
fn a_kill_around_a_cancel_loses_neither_the_cancel_nor_the_servers() {
    for step in CANCEL {
        for tool in ["roam", "dock"] {
            let world = cancelled(tool);
            killed_at(&world, step);

            let found = end(&world, "a");

            let expected = ("cancelled".into(), json!("CANCELLED"), 1, 1);
            assert_eq!(found, expected, "{tool} at {step}");
            assert!(world.robot.cancels("a") >= 1, "{tool} at {step}");
            assert_eq!(world.show("a")["remote_status"], "cancelled");
        }
    }
}

#[test]
fn a_handle_that_arrives_after_the_cancel_is_cancelled_after_a_kill_and_nothing_is_delivered() {
    let world = World::new();
    world.start("a", "held");
    let mut supervisor = world.supervisor(&[]);
    supervisor.env("RVC_SIGNAL_AT", "link_committed=KILL");
    let mut supervisor = Supervisor::spawn(&mut supervisor);
    supervisor.wait_for("sending");

    // The host cancels from another process, then the handle arrives.
    world.json(&["action", "cancel", "a"]);
    world.robot.release();
    assert_eq!(supervisor.wait().signal(), Some(9));
    assert_eq!(world.robot.cancels("a"), 0);
    let view = world.show("a");
    assert_eq!(view["phase"], "cancelled");
    assert!(view["remote_task_id"].is_string());

    let found = end(&world, "a");

    assert_eq!(found, ("cancelled".into(), json!("CANCELLED"), 1, 1));
    assert!(world.robot.cancels("a") >= 1);
    let view = world.show("a");
    assert_eq!(
        (&view["remote_status"], &view["result"]),
        (&json!("cancelled"), &Value::Null)
    );
}
