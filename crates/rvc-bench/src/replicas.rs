//! `rvc-durable` on `PostgreSQL`: what a claim costs beside the engine itself, and what more
//! replicas and many rows change.

mod claims;
mod database;
mod engine;
mod latency;
mod supervisors;

use self::database::Database;
pub(crate) use self::database::NotInstalled;
use crate::measure::{Measurement, paired, repeated};
use crate::placement;

/// Claims beside the engine's own rate of `SKIP LOCKED`.
///
/// Ours is the store's claim of 32 rows: one statement that leases them in fair shares between
/// the registrations, and gives each row whole, with its outcome, its run and its registration.
///
/// The limit is one bare statement on a table with the same columns, rows, room in its pages, key
/// and index of due rows, but no other index, no trigger and no constraint, and all its rows in
/// one queue: `UPDATE … WHERE action_id IN (SELECT … ORDER BY next_due FOR UPDATE SKIP LOCKED
/// LIMIT 32) RETURNING *`, prepared. It takes the same lease, so a row is rewritten in its page by
/// both. Its rows are not decoded.
///
/// Both claim on as many connections at once, and each claim is committed to the disk. After each
/// such round, and not measured, one statement gives the rows back to the end of the queue, so
/// that leased rows do not pile up at its head.
pub(crate) fn claim() -> anyhow::Result<Measurement> {
    let database = Database::new(claims::ROWS, claims::REGISTRATIONS, "0")?;
    engine::create(&database)?;
    let ours = || claims::rows_per_second(&database);
    let (value, limit) = paired(ours, || engine::rows_per_second(&database))?;
    Ok(Measurement {
        name: "replicas_claim",
        value,
        limit,
        unit: "claimed rows/s in batches of 32; half of the limit is the goal",
        conditions: format!(
            "the limit is UPDATE with SKIP LOCKED on a bare table; {} due rows of {} servers for \
             us, in one queue for the limit; {} connections each; each claim is on the disk; {}",
            claims::ROWS,
            claims::REGISTRATIONS,
            claims::CONNECTIONS,
            placement::stated()
        ),
    })
}

/// The steps of four supervisors beside those of one.
pub(crate) fn scale() -> anyhow::Result<Measurement> {
    let database = Database::new(supervisors::ROWS, supervisors::REGISTRATIONS, "0")?;
    let four = || supervisors::steps_per_second(&database, 4);
    let (four, one) = paired(four, || supervisors::steps_per_second(&database, 1))?;
    Ok(Measurement {
        name: "replicas_scale",
        value: four / one,
        limit: 2.5,
        unit: "times the steps of one supervisor that four do",
        conditions: format!(
            "supervisors are tasks of one process, each with a store and connections of its own, \
             at most {} polls at once and {:?} for each; {one:.0} steps/s by one; {}",
            supervisors::CONCURRENCY,
            supervisors::THINKING,
            placement::stated()
        ),
    })
}

/// How long a claim takes among a million open rows.
pub(crate) fn claim_latency_1m() -> anyhow::Result<Measurement> {
    let database = Database::new(latency::ROWS, latency::REGISTRATIONS, &latency::due())?;
    let scans = latency::scans(&database)?;
    Ok(Measurement {
        name: "replicas_claim_latency_1m",
        value: repeated(|| latency::p99_ms(&database))?,
        limit: 20.0,
        unit: "ms, the 99th percentile of claims of 32",
        conditions: format!(
            "{} open rows of {} servers, one in {} of them due; each claimed row is written back \
             between; {} claims a run; the claim reads the rows by: {scans}; {}",
            latency::ROWS,
            latency::REGISTRATIONS,
            latency::DUE_ONE_IN,
            latency::CLAIMS,
            placement::stated()
        ),
    })
}
