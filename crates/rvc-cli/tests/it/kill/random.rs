//! Kills at moments that nobody chose. `RVC_KILL_SEED` repeats them, as far as a machine does.

use std::time::{Duration, SystemTime};

use rvc_durable::plan::Settings;
use rvc_durable::store::Filter;
use rvc_durable::{ActionView, Durable, StartPolicy, Submission, SupervisorOptions};
use serde_json::{Value, json};

use super::{Outcomes, host, registration};
use crate::dice::Dice;
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

fn seed() -> u64 {
    std::env::var(SEED).map_or_else(
        |_| {
            let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
            now.as_secs() ^ u64::from(now.subsec_nanos())
        },
        |seed| seed.parse().unwrap(),
    )
}

const SEED: &str = "RVC_KILL_SEED";

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
        let seed = seed();
        // Shown by a test that fails.
        println!("repeat it with {SEED}={seed}");
        let mut dice = Dice::new(seed);
        for kill in 0..kills {
            // Two fresh ones, so that starts and polls are always under way.
            for twin in ["a", "b"] {
                self.submit(&format!("{twin}-{kill}"));
            }
            let mut supervisor = Supervisor::spawn(&mut self.world.supervisor(&[]));
            // A process takes most of its short life to come up: mostly wait for its first deed.
            let is_early = dice.chance(12);
            if !is_early {
                supervisor.next();
            }
            std::thread::sleep(Duration::from_micros(dice.within(0..60_000)));
            if !is_early && dice.chance(7) {
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
        let limit = match self.policy {
            StartPolicy::AtMostOnce => 1,
            _ => Settings::default().start_limit.into(),
        };
        let mut completed = 0;
        for view in self.views() {
            let action = view["action_id"].as_str().unwrap();
            let counted = self.world.robot.starts(action);
            let known = view["starts"].as_u64().unwrap();
            assert!(
                u64::from(counted) <= known && known <= limit,
                "{action} was started {counted} times, {known} are known, and {limit} allowed"
            );
            match view["phase"].as_str().unwrap() {
                "completed" => {
                    assert!(counted >= 1, "{action} succeeded without a start");
                    completed += 1;
                }
                // Every start that it may have was lost.
                "unknown" => assert_eq!(
                    (&view["error_code"], known),
                    (&json!("START_OUTCOME_UNKNOWN"), limit),
                    "{action}"
                ),
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
