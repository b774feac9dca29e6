//! Measurements that need a fresh process: this program starts itself for each run.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rvc_poster::{Endpoint, EventPoster};
use rvc_sign::Secret;
use rvc_tasks::{NoSink, TaskManager, TaskSpec, payload};

use crate::durable;
use crate::measure::{Measurement, repeated};
use crate::placement;
use crate::receiver::Receiver;
use crate::usage::{cpu_time, resident_bytes};

/// The argument that makes this program run one probe and print its number.
pub(crate) const ARGUMENT: &str = "probe";

const TASKS: u32 = 100_000;

pub(crate) fn running_task_bytes() -> anyhow::Result<Measurement> {
    Ok(Measurement {
        name: "running_task_bytes",
        value: repeated(|| in_a_fresh_process("bytes"))?,
        limit: 1536.0,
        unit: "bytes of resident memory a task, body included",
        conditions: format!("{TASKS} running tasks whose bodies wait for ever"),
    })
}

pub(crate) fn start_100_000_tasks() -> anyhow::Result<Measurement> {
    Ok(Measurement {
        name: "start_100_000_tasks",
        value: repeated(|| in_a_fresh_process("start"))?,
        limit: 1.0,
        unit: "s",
        conditions: placement::stated(),
    })
}

pub(crate) fn progress_30_hz_100_tasks() -> anyhow::Result<Measurement> {
    Ok(Measurement {
        name: "progress_30_hz_100_tasks",
        value: repeated(|| in_a_fresh_process("progress"))?,
        limit: 10.0,
        unit: "% of one core",
        conditions: format!(
            "each report is signed and posted; the receiver in another process; {}",
            placement::stated()
        ),
    })
}

pub(crate) fn in_a_fresh_process(probe: &str) -> anyhow::Result<f64> {
    let output = Command::new(std::env::current_exe()?)
        .args([ARGUMENT, probe])
        .output()?;
    ensure!(
        output.status.success(),
        "the probe {probe} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout)?;
    text.trim().parse().context("a probe prints one number")
}

/// The child's side.
pub(crate) fn run(probe: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let number = match probe {
        "bytes" => runtime.block_on(async { started_tasks().await.map(|started| started.bytes) }),
        "start" => runtime.block_on(async { started_tasks().await.map(|started| started.seconds) }),
        "progress" => runtime.block_on(percent_of_a_core()),
        "restart" => durable::restart_seconds(&runtime),
        "restart_memory" => durable::restart_mib(&runtime),
        "restart_calls" => durable::restart_calls(&runtime),
        "idle" => durable::idle_percent(&runtime),
        other => anyhow::bail!("there is no probe {other}"),
    }?;
    println!("{number}");
    Ok(())
}

struct Started {
    bytes: f64,
    seconds: f64,
}

async fn started_tasks() -> anyhow::Result<Started> {
    let manager = TaskManager::new("bench".parse()?, NoSink);
    // One task first, so that what is made once is not counted.
    start_waiting(&manager)?;
    let before = resident_bytes()?;

    let start = Instant::now();
    for _ in 0..TASKS {
        start_waiting(&manager)?;
    }
    let seconds = start.elapsed().as_secs_f64();

    // Every body has run up to its first await.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let grown = u32::try_from((resident_bytes()? - before) / u64::from(TASKS))?;
    Ok(Started {
        bytes: f64::from(grown),
        seconds,
    })
}

fn start_waiting(manager: &TaskManager) -> anyhow::Result<()> {
    manager.start(TaskSpec::new("wait"), |ctx| async move {
        ctx.cancelled().await;
        Ok(payload! {})
    })?;
    Ok(())
}

async fn percent_of_a_core() -> anyhow::Result<f64> {
    const MEASURED: Duration = Duration::from_secs(4);
    let receiver = Receiver::start()?;
    let endpoint = Endpoint::new(
        &format!("http://{}/", receiver.addr),
        Secret::new(b"bench")?,
    )?;
    let poster = EventPoster::builder("bench".parse()?, endpoint).build()?;
    let manager = TaskManager::new("bench".parse()?, poster);
    for _ in 0..100 {
        manager.start(TaskSpec::new("drive"), |ctx| async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / 30);
            for tick in 0_u32.. {
                ticks.tick().await;
                ctx.progress(payload! { "eta_s": 22.4, "distance_m": 14.1, "tick": tick })?;
            }
            Ok(payload! {})
        })?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;

    let before = cpu_time()?;
    let start = Instant::now();
    tokio::time::sleep(MEASURED).await;
    let used = cpu_time()?.saturating_sub(before);
    Ok(100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64())
}
