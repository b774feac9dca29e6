//! Kills at moments that nobody chose.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use rvc_durable::store::Filter;
use rvc_durable::{ActionView, Durable, StartPolicy, Submission, SupervisorOptions};
use serde_json::{Value, json};

use super::{Outcomes, host, registration};
use crate::durable::{Supervisor, World};

#[test]
fn kills_at_random_moments_start_no_mcp_task_twice_and_lose_no_outcome() {
    Harness::new("drive", StartPolicy::AtMostOnce).run(KILLS);
}

#[test]
fn kills_at_random_moments_start_no_contract_task_twice_and_lose_no_outcome() {
    Harness::new("dock", StartPolicy::AtMostOnce).run(KILLS);
}

#[test]
fn kills_at_random_moments_lose_no_outcome_of_a_tool_that_may_run_twice() {
    Harness::new("drive", StartPolicy::IdempotentTool).run(KILLS);
}

#[test]
#[ignore = "it takes minutes; cargo xtask soak"]
fn soak_a_thousand_kills_at_random_moments() {
    for tool in ["drive", "dock"] {
        Harness::new(tool, StartPolicy::AtMostOnce).run(500);
    }
}

/// In each of the three tests above, so 300 in all.
const KILLS: u32 = 100;

/// Kills that follow each other, each with a new action under way.
struct Harness {
    world: World,
    host: Durable,
    runtime: tokio::runtime::Runtime,
    tool: &'static str,
    policy: StartPolicy,
    outcomes: Outcomes,
}

impl Harness {
    fn new(tool: &'static str, policy: StartPolicy) -> Self {
        let world = World::new();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let host = runtime.block_on(host(&world, SupervisorOptions::new()));
        runtime
            .block_on(host.put_registration(registration(&world)))
            .unwrap();
        Self {
            world,
            host,
            runtime,
            tool,
            policy,
            outcomes: Outcomes::default(),
        }
    }

    fn run(mut self, kills: u32) {
        let dice = RandomState::new();
        for kill in 0..kills {
            // Two fresh ones, so that starts and polls are always under way.
            for twin in ["a", "b"] {
                self.submit(&format!("{twin}-{kill}"));
            }
            let mut supervisor = Supervisor::spawn(&mut self.world.supervisor(&[]));
            let roll = dice.hash_one(kill);
            // A process takes most of its short life to come up: mostly wait for its first deed.
            if roll % 8 != 0 {
                supervisor.next();
            }
            std::thread::sleep(Duration::from_micros((roll >> 8) % 60_000));
            if roll % 16 == 1 {
                let victim = format!("a-{kill}").parse().unwrap();
                self.runtime
                    .block_on(self.host.cancel_action(&victim))
                    .unwrap();
            }
            supervisor.kill();
            self.outcomes.check(self.views());
        }
        self.world.until_idle();
        self.outcomes.check(self.views());
        self.judge(kills);
    }

    /// What the server counted must fit what each outcome says.
    fn judge(&self, kills: u32) {
        assert_eq!(
            self.outcomes.0.len(),
            2 * kills as usize,
            "one outcome each"
        );
        let mut completed = 0;
        for view in self.views() {
            let action = view["action_id"].as_str().unwrap();
            let counted = self.world.robot.starts(action);
            if self.policy == StartPolicy::AtMostOnce {
                assert!(counted <= 1, "{action} was started {counted} times");
            }
            match view["phase"].as_str().unwrap() {
                "completed" => {
                    assert!(counted >= 1, "{action} succeeded without a start");
                    completed += 1;
                }
                "unknown" => assert_eq!(view["error_code"], "START_OUTCOME_UNKNOWN"),
                "cancelled" => assert_eq!(view["error_code"], "CANCELLED"),
                other => panic!("{action} ended as {other}: {view}"),
            }
        }
        assert!(
            completed > 0,
            "nothing ever ended well: the kills come too early to prove much"
        );
    }

    fn submit(&self, action: &str) {
        let arguments = json!({"key": action, "polls": 3});
        let submission =
            Submission::new(action.parse().unwrap(), "robot".parse().unwrap(), self.tool)
                .policy(self.policy)
                .arguments(arguments.as_object().unwrap().clone());
        self.runtime.block_on(self.host.submit(submission)).unwrap();
    }

    fn views(&self) -> Vec<Value> {
        let rows = self
            .runtime
            .block_on(self.host.actions(Filter::all()))
            .unwrap();
        let views = rows.into_iter().map(ActionView::from);
        views
            .map(|view| serde_json::to_value(view).unwrap())
            .collect()
    }
}
