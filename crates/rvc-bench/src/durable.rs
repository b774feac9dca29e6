//! `rvc-durable`: what a step costs beside the engine itself, and what 100,000 rows cost.

mod engine;
mod fixture;
mod server;
mod steps;

use std::time::{Duration, Instant};

use rvc_durable::store::SqliteStore;
use rvc_durable::{Durable, SupervisorOptions};
use tokio::runtime::Runtime;

use self::fixture::Fixture;
pub(crate) use self::server::Server;
use crate::measure::{Measurement, paired, repeated};
use crate::placement;
use crate::probe::in_a_fresh_process;
use crate::usage::{cpu_time, resident_bytes};

/// A step's bookkeeping beside the engine's own rate.
///
/// Ours is what the supervisor does with the store for a poll that brings nothing new, without
/// the poll: claims of at most 32 due rows (each row leased, read whole, with its registration
/// and its run), what `plan` makes of the answer, and one fenced write for each row, at most 64
/// rows in hand, through the store's thread. So each step writes its row twice.
///
/// The limit is the engine alone: a table with the same columns, its key and the index of due
/// rows, but no trigger, no constraint and no other index; two prepared updates for each row,
/// one of the lease's three columns and one of all that a step may change; 32 rows in one
/// transaction for each; on one thread that does nothing else. Nothing is read, nothing is
/// compared. The same pragmas (WAL, `synchronous=FULL`), the same directory.
pub(crate) fn steps() -> anyhow::Result<Measurement> {
    let (value, limit) = paired(steps::row_writes_per_second, engine::row_writes_per_second)?;
    Ok(Measurement {
        name: "durable_steps",
        value,
        limit,
        unit: "row writes/s, two for each step",
        conditions: format!(
            "the limit is SQLite alone, in groups of 32, on the same disk; {}",
            placement::stated()
        ),
    })
}

/// From the opening of the database, which belongs to a restart, to the first poll at the server.
pub(crate) fn restart_100k() -> anyhow::Result<Measurement> {
    Ok(Measurement {
        name: "durable_restart_100k",
        value: repeated(|| in_a_fresh_process("restart"))?,
        limit: 2.0,
        unit: "s from the opening of the database to the first poll",
        conditions: due_rows(),
    })
}

pub(crate) fn restart_100k_memory() -> anyhow::Result<Measurement> {
    Ok(Measurement {
        name: "durable_restart_100k_memory",
        value: repeated(|| in_a_fresh_process("restart_memory"))?,
        limit: 200.0,
        unit: "MiB of resident memory grown, the server's part included",
        conditions: format!("{}; after {POLLS} polls", due_rows()),
    })
}

pub(crate) fn restart_100k_calls() -> anyhow::Result<Measurement> {
    Ok(Measurement {
        name: "durable_restart_100k_calls",
        value: repeated(|| in_a_fresh_process("restart_calls"))?,
        limit: 64.0,
        unit: "calls in flight at once, at most",
        conditions: format!("{}; in {POLLS} polls", due_rows()),
    })
}

pub(crate) fn idle_100k() -> anyhow::Result<Measurement> {
    Ok(Measurement {
        name: "durable_idle_100k",
        value: repeated(|| in_a_fresh_process("idle"))?,
        limit: 1.0,
        unit: "% of one core",
        conditions: format!("{ROWS} rows that are due in 50 minutes; one count of rows included"),
    })
}

/// The child's side of `durable_restart_100k`.
pub(crate) fn restart_seconds(runtime: &Runtime) -> anyhow::Result<f64> {
    runtime.block_on(async {
        let restarted = Restarted::new(1).await?;
        Ok(restarted.first_poll.as_secs_f64())
    })
}

/// The child's side of `durable_restart_100k_memory`.
pub(crate) fn restart_mib(runtime: &Runtime) -> anyhow::Result<f64> {
    runtime.block_on(async {
        let restarted = Restarted::new(POLLS).await?;
        let kib = u32::try_from(restarted.grown / 1024)?;
        Ok(f64::from(kib) / 1024.0)
    })
}

/// The child's side of `durable_restart_100k_calls`.
pub(crate) fn restart_calls(runtime: &Runtime) -> anyhow::Result<f64> {
    runtime.block_on(async {
        let restarted = Restarted::new(POLLS).await?;
        Ok(f64::from(restarted.most_in_flight))
    })
}

/// What was seen while a supervisor found 100,000 due rows.
struct Restarted {
    first_poll: Duration,
    grown: u64,
    most_in_flight: u32,
}

impl Restarted {
    /// Restarts, and lets so many polls be answered.
    async fn new(polls: u32) -> anyhow::Result<Self> {
        let fixture = Fixture::new(ROWS, REGISTRATIONS, Duration::ZERO)?;
        let server = Server::new();
        let before = resident_bytes()?;
        let begun = Instant::now();
        let store = SqliteStore::open(fixture.path())?;
        let durable = Durable::new(store, server.clone(), SupervisorOptions::new());
        durable.supervise();
        let mut grown = 0;
        while server.polls() < polls {
            server.polled().await;
            grown = resident_bytes()?.saturating_sub(before).max(grown);
        }
        let first_poll = server.first_poll().duration_since(begun);
        durable.close().await;
        Ok(Self {
            first_poll,
            grown,
            most_in_flight: server.most_in_flight(),
        })
    }
}

/// The child's side of `durable_idle_100k`.
pub(crate) fn idle_percent(runtime: &Runtime) -> anyhow::Result<f64> {
    // Longer than the supervisor's interval for counting rows (30 s).
    const MEASURED: Duration = Duration::from_secs(31);
    runtime.block_on(async {
        let fixture = Fixture::new(ROWS, REGISTRATIONS, Duration::from_secs(3000))?;
        let store = SqliteStore::open(fixture.path())?;
        let durable = Durable::new(store, Server::new(), SupervisorOptions::new());
        durable.supervise();
        tokio::time::sleep(Duration::from_secs(1)).await;

        let before = cpu_time()?;
        let start = Instant::now();
        tokio::time::sleep(MEASURED).await;
        let used = cpu_time()?.saturating_sub(before);
        let percent = 100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64();
        durable.close().await;
        Ok(percent)
    })
}

fn due_rows() -> String {
    format!(
        "{ROWS} due rows of {REGISTRATIONS} servers that answer within 5 ms, in the same process; \
         {}",
        placement::stated()
    )
}

const ROWS: u32 = 100_000;

const REGISTRATIONS: u32 = 16;

/// Enough to see a stampede.
const POLLS: u32 = 2000;
