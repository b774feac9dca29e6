//! A kill around the delivery to a host that keeps its actions elsewhere.

use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::Command;

use rvc_durable::plan::RunState;
use rvc_durable::{
    ActionId, ActionState, Delivery, ForeignHost, HostError, OwnerId, Registration, RegistrationId,
    RunId, Submission, SupervisorOptions,
};
use serde_json::json;

use super::registration;
use crate::durable::{Supervisor, World};

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Submits, and is asked nothing: the children supervise.
pub(crate) struct Submitting;

impl ForeignHost for Submitting {
    fn run_state(&self, _: RunId) -> BoxFuture<'_, Result<RunState, HostError>> {
        unreachable!("nothing is supervised here")
    }

    fn was_delivered(&self, _: ActionId) -> BoxFuture<'_, Result<bool, HostError>> {
        unreachable!("nothing is supervised here")
    }

    fn deliver(&self, _: Delivery) -> BoxFuture<'_, Result<(), HostError>> {
        unreachable!("nothing is supervised here")
    }

    fn finish(&self, _: ActionId, _: ActionState) -> BoxFuture<'_, Result<(), HostError>> {
        unreachable!("nothing is supervised here")
    }

    fn authorise(
        &self,
        _: RegistrationId,
        _: OwnerId,
    ) -> BoxFuture<'_, Result<Option<Registration>, HostError>> {
        unreachable!("nothing is supervised here")
    }
}

/// The steps around a delivery, and how often the host is told of the end when it is killed there.
pub(super) const DELIVERY: [(&str, usize); 3] = [
    ("outcome_committed", 1),
    // The host is told again that the action has ended, which changes nothing.
    ("delivered", 2),
    ("delivery_committed", 1),
];

fn submit(world: &World, action: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = SupervisorOptions::new().host(std::sync::Arc::new(Submitting));
    let host = runtime.block_on(super::host(world, options));
    let arguments = json!({"key": action, "polls": 2})
        .as_object()
        .unwrap()
        .clone();
    let submission = Submission::new(action.parse().unwrap(), "robot".parse().unwrap(), "drive");
    runtime
        .block_on(host.submit(submission.arguments(arguments)))
        .unwrap();
}

/// A world whose action belongs to a foreign host.
pub(super) fn submitted() -> World {
    let world = World::new();
    let host = world.file(HOST);
    std::fs::create_dir(&host).unwrap();
    let known = serde_json::to_string(&registration(&world)).unwrap();
    std::fs::write(host.join("registration-robot.json"), known).unwrap();
    submit(&world, "a");
    world
}

pub(super) fn supervisor(world: &World, arguments: &[&str]) -> Command {
    let mut supervisor = world.supervisor(arguments);
    supervisor.env("RVC_FOREIGN_HOST", world.file(HOST));
    supervisor
}

/// The host's log.
pub(super) fn log(world: &World) -> String {
    std::fs::read_to_string(world.file(HOST).join("log")).unwrap()
}

const HOST: &str = "host";

#[test]
fn a_kill_around_a_delivery_repeats_nothing_that_the_host_has_and_loses_nothing() {
    for (step, finished) in DELIVERY {
        let world = submitted();
        let mut first = supervisor(&world, &[]);
        first.env("RVC_SIGNAL_AT", format!("{step}=KILL"));
        let ended = Supervisor::spawn(&mut first).wait();
        assert_eq!(ended.signal(), Some(9), "{step}: {ended}");

        let mut second = supervisor(&world, &["--until-idle"]);
        let ended = crate::rvc::answer(&mut second, "");

        assert_eq!(ended.code, 0, "{step}: {}", ended.stderr);
        assert_eq!(world.show("a")["phase"], "completed", "{step}");
        assert_eq!(world.robot.starts("a"), 1, "{step}");
        let log = log(&world);
        let count = |call: &str| log.lines().filter(|line| line.ends_with(call)).count();
        assert_eq!(count(" deliver a completed"), 1, "{step}: {log}");
        assert_eq!(count(" finish a completed"), finished, "{step}: {log}");
        let is_question = |line: &str| line.contains(" asks ") || line.contains(" looks ");
        let changes = log.lines().filter(|line| !is_question(line));
        assert_eq!(changes.count(), 1 + finished, "{step}: {log}");
        let taken = std::fs::read_to_string(world.file(HOST).join("delivered-a")).unwrap();
        assert_eq!(taken, "completed", "{step}");
    }
}
