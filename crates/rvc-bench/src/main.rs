//! Measures each crate beside its limit, and prints one JSON line a measurement.
//!
//! `cargo xtask bench [NAME …]` runs this in release. It reports and judges nothing: machines are
//! shared, so read the ratio, not the figure.

mod delivery;
mod durable;
mod measure;
mod placement;
mod probe;
mod receiver;
mod replicas;
mod signing;
mod usage;

use crate::measure::Measurement;

type Bench = fn() -> anyhow::Result<Measurement>;

const BENCHES: [(&str, Bench); 14] = [
    ("sign_1_kib", signing::sign_1_kib),
    ("deliver_1_task_in_order", delivery::one_task_in_order),
    ("deliver_64_tasks", delivery::sixty_four_tasks),
    ("running_task_bytes", probe::running_task_bytes),
    ("start_100_000_tasks", probe::start_100_000_tasks),
    ("progress_30_hz_100_tasks", probe::progress_30_hz_100_tasks),
    ("durable_steps", durable::steps),
    ("durable_restart_100k", durable::restart_100k),
    ("durable_restart_100k_memory", durable::restart_100k_memory),
    ("durable_restart_100k_calls", durable::restart_100k_calls),
    ("durable_idle_100k", durable::idle_100k),
    ("replicas_claim", replicas::claim),
    ("replicas_scale", replicas::scale),
    ("replicas_claim_latency_1m", replicas::claim_latency_1m),
];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [receiver::ARGUMENT] => receiver::run(),
        [probe::ARGUMENT, probe] => probe::run(probe),
        ref names => run(names),
    }
}

fn run(names: &[&str]) -> anyhow::Result<()> {
    if let Some(unknown) = names
        .iter()
        .find(|name| !BENCHES.iter().any(|(known, _)| known == *name))
    {
        let known = BENCHES.map(|(known, _)| known).join(", ");
        anyhow::bail!("there is no bench {unknown}; there are {known}");
    }
    for (name, bench) in BENCHES {
        if names.is_empty() || names.contains(&name) {
            match bench() {
                Err(error) if error.is::<replicas::NotInstalled>() => {
                    eprintln!("{name} is skipped: {error}");
                }
                measured => println!("{}", measured?.to_json()),
            }
        }
    }
    Ok(())
}
