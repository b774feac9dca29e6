//! Everything fails at once, and every action has its one outcome.
//!
//! ```text
//!  host ──────────┐                                    ┌─► server 0
//!  supervisor 0 ──┤ a proxy  ┌──────────┐   a proxy    │   SIGKILL, comes back empty
//!        …        ├─each────►│PostgreSQL│   each  ─────┤
//!  supervisor 3 ──┘          └──────────┘              └─► server 1
//!   SIGKILL, SIGSTOP          immediate stops      cuts, stalls, lost answers
//!
//!  host.jsonl  foreign.jsonl  faults.jsonl  database.jsonl  server-0-1.jsonl  server-0-2.jsonl … ──► checker
//! ```
//!
//! `RVC_CHAOS_SECONDS` says for how long (120), `RVC_CHAOS_SEED` repeats a schedule. A schedule
//! is the whole of what the test does; how processes interleave under it is the machine's.
//! Supervisors are `rvc supervise`, servers are this binary again, and each is a process. The
//! host is this one; some actions belong to a foreign host, which is a directory.

mod checker;
mod faults;
mod fleet;
mod foreign;
mod history;
mod host;
mod schedule;
mod server;
mod witness;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rvc_durable::remote::HttpDialer;
use rvc_durable::store::PostgresStore;
use rvc_durable::{Durable, SupervisorOptions};
use rvc_test::postgres::Cluster;
use rvc_test::{FaultProxy, Target};

use self::faults::Stage;
use self::fleet::Member;
use self::foreign::Foreign;
use self::history::{Journal, now};
use self::host::Host;
use self::schedule::{SERVERS, SUPERVISORS, Schedule};
use self::server::Server;
use crate::kill::foreign::Submitting;

#[test]
#[ignore = "needs PostgreSQL and minutes; `cargo xtask ci postgres` runs it"]
fn chaos_leaves_one_outcome_for_each_action() {
    run(length(120));
}

#[test]
#[ignore = "needs PostgreSQL and an hour; `cargo xtask soak` runs it"]
fn soak_chaos_for_an_hour() {
    run(length(3_600));
}

fn length(default: u64) -> Duration {
    let asked = std::env::var("RVC_CHAOS_SECONDS");
    Duration::from_secs(asked.map_or(default, |seconds| seconds.parse().unwrap()))
}

fn run(length: Duration) {
    let seed = std::env::var("RVC_CHAOS_SEED");
    let seed = seed.map_or_else(|_| now(), |seed| seed.parse().unwrap());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{seed}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    eprintln!("RVC_CHAOS_SEED={seed}, histories in {}", folder.display());
    // Printed also where a part of the test panics.
    let on_failure = Evidence {
        seed,
        folder: folder.clone(),
    };

    let world = World::new(&folder);
    world.perform(seed, length);

    let entries = history::read(&folder);
    let violations = checker::check(&entries);
    report(&entries);
    assert!(
        violations.is_empty(),
        "{} violations:\n{}",
        violations.len(),
        shown(&violations)
    );
    drop(world);
    on_failure.forget();
}

/// All that takes part.
struct World {
    cluster: Cluster,
    members: Vec<Arc<Member>>,
    servers: Vec<Arc<Server>>,
    host: Host,
    host_link: Arc<FaultProxy>,
    runtime: tokio::runtime::Runtime,
    folder: PathBuf,
    chaos: Journal,
    host_journal: Journal,
}

const DATABASE: &str = "chaos";

/// The database as it is reached over a proxy. It knows by `name` who writes.
fn database_url(link: &FaultProxy, name: &str) -> String {
    let address = link.address();
    format!("postgres://postgres@{address}/{DATABASE}?application_name={name}")
}

impl World {
    fn new(folder: &Path) -> Self {
        let cluster = Cluster::start_with(&[("fsync", "off"), ("max_connections", "300")]);
        let cluster = cluster.unwrap();
        cluster.create_database(DATABASE).unwrap();
        let link = || FaultProxy::start(Target::Unix(cluster.socket())).unwrap();
        let chaos = Journal::create(folder, "faults");
        let host_journal = Journal::create(folder, "host");

        let runtime = tokio::runtime::Runtime::new().unwrap();
        let host_link = Arc::new(link());
        let store = runtime.block_on(PostgresStore::open(&database_url(&host_link, "host")));
        let store = store.unwrap();
        let durable = |options| {
            let _inside = runtime.enter();
            Durable::new(store.clone(), HttpDialer::new().unwrap(), options)
        };
        witness::install(&cluster);
        let foreign = durable(SupervisorOptions::new().host(Arc::new(Submitting)));
        let foreign = Foreign::new(foreign, foreign::directory(folder));
        let durable = durable(SupervisorOptions::new());
        let host = Host::new(durable, foreign, host_journal.clone());
        let servers: Vec<_> = (0..SERVERS)
            .map(|index| Arc::new(Server::start(index, folder)))
            .collect();
        for (index, server) in servers.iter().enumerate() {
            runtime.block_on(host.register(index, &server.url()));
        }
        let members = (0..SUPERVISORS)
            .map(|index| Arc::new(Member::start(index, link(), folder, chaos.clone())))
            .collect();
        Self {
            cluster,
            members,
            servers,
            host,
            host_link,
            runtime,
            folder: folder.to_owned(),
            chaos,
            host_journal,
        }
    }

    fn perform(&self, seed: u64, length: Duration) {
        let seconds = length.as_secs();
        // 2,000 in the two minutes of a gate.
        let actions = usize::try_from(seconds * 2_000 / 120).unwrap().max(50);
        let schedule = Schedule::new(seed, length, actions);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    self.members.iter().for_each(|member| member.watch());
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
            scope.spawn(|| {
                let stage = Stage {
                    cluster: &self.cluster,
                    members: &self.members,
                    servers: &self.servers,
                    host_link: &self.host_link,
                    journal: &self.chaos,
                };
                stage.play(&schedule.faults);
            });
            // A panic in here must not leave the other threads running.
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let answering = self.runtime.spawn(self.host.clone().answer());
                let begun = tokio::time::Instant::now();
                self.runtime.block_on(self.host.perform(&schedule, begun));
                self.until_idle();
                answering.abort();
            }));
            is_over.store(true, Ordering::SeqCst);
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        });
        self.close();
    }

    /// Waits as long as something goes on.
    fn until_idle(&self) {
        let mut fewest = u64::MAX;
        let mut since = Instant::now();
        loop {
            let open = witness::open_rows(&self.cluster).unwrap_or(u64::MAX);
            if open == 0 {
                return;
            }
            if open < fewest {
                (fewest, since) = (open, Instant::now());
            }
            if since.elapsed() > LONGEST_STANDSTILL {
                eprintln!("{open} rows are stuck");
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends the supervisors in order, and writes down what is left.
    fn close(&self) {
        for member in &self.members {
            let status = member.end();
            assert!(
                status.is_some_and(|status| status.success()),
                "a supervisor did not end in order: {status:?}"
            );
        }
        let url = database_url(&self.host_link, "host");
        let answer = crate::rvc::run(["action", "list", "--json", "--db", &url], "");
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        host::final_outcomes(&answer.stdout, &self.host_journal);
        let directory = foreign::directory(&self.folder);
        foreign::dump(&directory, &Journal::create(&self.folder, "foreign"));
        witness::dump(&self.cluster, &Journal::create(&self.folder, "database"));
    }
}

/// How often each outcome came, so that a reader sees what the run was worth.
fn report(entries: &[history::Entry]) {
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    let mut told = std::collections::HashSet::new();
    for entry in entries {
        let what = match &entry.seen {
            history::Seen::Outcome(outcome) if told.insert(&outcome.action) => format!(
                "outcome {} {}",
                outcome.phase,
                outcome.error_code.as_deref().unwrap_or_default()
            ),
            history::Seen::FaultBegan { fault } => {
                let fault = format!("{fault:?}");
                format!("fault {}", fault.split('(').next().unwrap_or_default())
            }
            history::Seen::Delivering { .. } => "delivery to the foreign host".to_owned(),
            history::Seen::Delivered { .. } => "delivery that the foreign host took".to_owned(),
            history::Seen::SupervisorEnded { .. } => "a supervisor ended by itself".to_owned(),
            _ => continue,
        };
        *counts.entry(what).or_default() += 1;
    }
    for (what, count) in counts {
        eprintln!("{count:6} {what}");
    }
}

fn shown(violations: &[checker::Violation]) -> String {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Prints the seed and the whole history, unless it is forgotten.
struct Evidence {
    seed: u64,
    folder: PathBuf,
}

impl Evidence {
    fn forget(self) {
        let _ = fs::remove_dir_all(&self.folder);
        std::mem::forget(self);
    }
}

impl Drop for Evidence {
    fn drop(&mut self) {
        for entry in history::read(&self.folder) {
            eprintln!("{}", serde_json::to_string(&entry).unwrap());
        }
        eprintln!(
            "that was the history of RVC_CHAOS_SEED={}; it and the processes' logs are in {}",
            self.seed,
            self.folder.display()
        );
    }
}

/// Longer than any call, lease or rest may last when nothing is wrong any more.
const LONGEST_STANDSTILL: Duration = Duration::from_secs(120);
