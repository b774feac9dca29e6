//! What happens when, all of it from a seed.

use std::collections::HashMap;
use std::time::Duration;

use rvc_durable::StartPolicy;
use serde::{Deserialize, Serialize};

use crate::dice::Dice;

pub(super) const SUPERVISORS: usize = 4;
pub(super) const SERVERS: usize = 2;

/// A process that is stopped for longer than this has lost what it holds.
pub(super) const LEASE: Duration = Duration::from_secs(3);

/// A whole run.
pub(super) struct Schedule {
    pub(super) actions: Vec<PlannedAction>,
    pub(super) run_cancels: Vec<(Duration, String)>,
    pub(super) faults: Vec<PlannedFault>,
}

/// One action, as the host submits it.
#[derive(Clone)]
pub(super) struct PlannedAction {
    pub(super) at: Duration,
    pub(super) action: String,
    pub(super) run: String,
    /// It belongs to a foreign host, and has a run of its own.
    pub(super) is_foreign: bool,
    pub(super) server: usize,
    pub(super) tool: &'static str,
    pub(super) policy: StartPolicy,
    pub(super) work: Duration,
    pub(super) deadline: Option<Duration>,
    /// After the submission was acknowledged.
    pub(super) cancel_after: Option<Duration>,
}

#[derive(Clone)]
pub(super) struct PlannedFault {
    pub(super) at: Duration,
    /// How long it lasts, where it is not over at once.
    pub(super) lasts: Duration,
    pub(super) fault: Fault,
}

/// What goes wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fault {
    KillSupervisor(usize),
    StopSupervisor(usize),
    /// In order, and started again.
    EndSupervisor(usize),
    CrashDatabase,
    /// Between one supervisor and the database, and so on.
    CutDatabase(usize),
    RefuseDatabase(usize),
    StallDatabase(usize),
    /// An answer of the database is lost: that of a COMMIT, say.
    LoseDatabaseAnswer(usize),
    RestartServer(usize),
    CutServer(usize),
    StallServer(usize),
    DelayServer(usize),
    LoseServerAnswer(usize),
}

/// What one fault at a time can happen to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Victim {
    Supervisor(usize),
    /// The last one is the host's.
    DatabaseLink(usize),
    Database,
    Server(usize),
}

impl Fault {
    pub(super) fn victim(self) -> Victim {
        match self {
            Self::KillSupervisor(n) | Self::StopSupervisor(n) | Self::EndSupervisor(n) => {
                Victim::Supervisor(n)
            }
            Self::CutDatabase(n)
            | Self::RefuseDatabase(n)
            | Self::StallDatabase(n)
            | Self::LoseDatabaseAnswer(n) => Victim::DatabaseLink(n),
            Self::CrashDatabase => Victim::Database,
            Self::RestartServer(n)
            | Self::CutServer(n)
            | Self::StallServer(n)
            | Self::DelayServer(n)
            | Self::LoseServerAnswer(n) => Victim::Server(n),
        }
    }
}

impl Schedule {
    /// Actions for `length`. Its last fifth is calm: there nothing may fail that need not.
    pub(super) fn new(seed: u64, length: Duration, actions: usize) -> Self {
        let mut dice = Dice::new(seed);
        let actions = plan_actions(&mut dice, length, actions);
        let run_cancels = plan_run_cancels(&mut dice, &actions);
        let faults = plan_faults(&mut dice, length.mul_f64(0.8));
        Self {
            actions,
            run_cancels,
            faults,
        }
    }
}

fn plan_actions(dice: &mut Dice, length: Duration, count: usize) -> Vec<PlannedAction> {
    let gap = length / u32::try_from(count).unwrap();
    (0..count)
        .map(|n| {
            let tool = dice.choose(TOOLS);
            // Nothing else would end it.
            let is_endless = tool == "roam";
            let deadline = dice.chance(if is_endless { 50 } else { 8 });
            let cancel = dice.chance(10) || (is_endless && !deadline);
            let is_foreign = dice.chance(15);
            let run = if is_foreign {
                format!("f-{n:06}")
            } else {
                format!("r-{:05}", n / ACTIONS_OF_A_RUN)
            };
            PlannedAction {
                at: gap * u32::try_from(n).unwrap(),
                action: format!("a-{n:06}"),
                run,
                is_foreign,
                server: usize::try_from(dice.within(0..SERVERS as u64)).unwrap(),
                tool,
                policy: dice.choose(POLICIES),
                work: dice.millis(20..1_500),
                deadline: deadline.then(|| dice.millis(300..5_000)),
                cancel_after: cancel.then(|| dice.millis(0..2_000)),
            }
        })
        .collect()
}

fn plan_run_cancels(dice: &mut Dice, actions: &[PlannedAction]) -> Vec<(Duration, String)> {
    let runs = actions.iter().step_by(ACTIONS_OF_A_RUN);
    let runs = runs.filter(|first| !first.is_foreign);
    runs.filter_map(|first| {
        let after = dice.millis(0..2_000);
        dice.chance(5)
            .then(|| (first.at + after, first.run.clone()))
    })
    .collect()
}

fn plan_faults(dice: &mut Dice, length: Duration) -> Vec<PlannedFault> {
    let mut faults = Vec::new();
    let mut busy_until = HashMap::<Victim, Duration>::new();
    let mut at = Duration::from_millis(500);
    while at < length {
        let (fault, lasts) = draw_fault(dice);
        let lasts = lasts.min(length.saturating_sub(at));
        let free_at = busy_until.entry(fault.victim()).or_default();
        if *free_at <= at {
            // A process needs a moment to come up before the next blow tells anything.
            *free_at = at + lasts + Duration::from_millis(700);
            faults.push(PlannedFault { at, lasts, fault });
        }
        at += dice.millis(100..1_000);
    }
    faults
}

fn draw_fault(dice: &mut Dice) -> (Fault, Duration) {
    let supervisor = usize::try_from(dice.within(0..SUPERVISORS as u64)).unwrap();
    // The host's link too.
    let link = usize::try_from(dice.within(0..SUPERVISORS as u64 + 1)).unwrap();
    let server = usize::try_from(dice.within(0..SERVERS as u64)).unwrap();
    let lease = u64::try_from(LEASE.as_millis()).unwrap();
    let at_once = Duration::ZERO;
    match dice.within(0..100) {
        0..20 => (Fault::KillSupervisor(supervisor), at_once),
        20..34 => (
            Fault::StopSupervisor(supervisor),
            dice.millis(lease / 3..lease * 2),
        ),
        34..38 => (Fault::EndSupervisor(supervisor), at_once),
        38..43 => (Fault::CrashDatabase, dice.millis(100..2_500)),
        43..53 => (Fault::CutDatabase(link), at_once),
        53..58 => (Fault::RefuseDatabase(link), dice.millis(200..3_000)),
        58..66 => (Fault::StallDatabase(link), dice.millis(200..3_000)),
        66..80 => (Fault::LoseDatabaseAnswer(link), Duration::from_secs(1)),
        80..85 => (Fault::RestartServer(server), dice.millis(50..1_500)),
        85..90 => (Fault::CutServer(server), at_once),
        90..93 => (Fault::StallServer(server), dice.millis(200..3_000)),
        93..95 => (Fault::DelayServer(server), dice.millis(500..3_000)),
        _ => (Fault::LoseServerAnswer(server), Duration::from_secs(1)),
    }
}

const ACTIONS_OF_A_RUN: usize = 5;

/// What the servers offer; a tool that stands here twice is called twice as often.
const TOOLS: &[&str] = &[
    "drive", "drive", "drive", "dock", "dock", "dock", "beep", "slow", "held", "ask", "jam",
    "scratch", "fall", "spill", "refuse", "roam",
];

const POLICIES: &[StartPolicy] = &[
    StartPolicy::AtMostOnce,
    StartPolicy::AtMostOnce,
    StartPolicy::ServerDedup,
    StartPolicy::IdempotentTool,
];

#[test]
fn a_seed_is_the_whole_schedule_and_a_victim_suffers_one_fault_at_a_time() {
    let length = Duration::from_secs(120);
    let faults = |seed| Schedule::new(seed, length, 2_000).faults;
    for seed in 0..20 {
        let planned = faults(seed);
        let again = faults(seed);
        assert!(planned.len() > 100, "{}", planned.len());
        assert_eq!(planned.len(), again.len());
        for (n, one) in planned.iter().enumerate() {
            assert_eq!((one.at, one.fault), (again[n].at, again[n].fault));
            let clash = planned[..n].iter().find(|other| {
                other.fault.victim() == one.fault.victim() && other.at + other.lasts > one.at
            });
            assert!(clash.is_none(), "{:?}", one.fault);
        }
    }
}
