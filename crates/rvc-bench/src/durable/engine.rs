use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::fixture::Fixture;
use super::steps::{REGISTRATIONS, STEPS};

/// What the engine takes when nothing is read, compared, guarded or handed between threads.
pub(super) fn row_writes_per_second() -> anyhow::Result<f64> {
    let fixture = Fixture::new(STEPS, REGISTRATIONS, Duration::ZERO)?;
    let mut db = Connection::open(fixture.path())?;
    db.pragma_update(None, "synchronous", "full")?;
    let actions = plain(&db)?;
    let start = Instant::now();
    for group in actions.chunks(GROUP) {
        let transaction = db.transaction()?;
        {
            let mut lease = transaction.prepare_cached(LEASE)?;
            for action in group {
                lease.execute(params![action, OWNER, NOW])?;
            }
        }
        transaction.commit()?;
        let transaction = db.transaction()?;
        {
            let mut write = transaction.prepare_cached(WRITE)?;
            for action in group {
                write.execute(params![
                    action,
                    "working",
                    1,
                    NOW,
                    "mcp",
                    action,
                    CREATED,
                    "working",
                    false,
                    "driving",
                    86_400_000,
                    60_000,
                    1,
                    NOW,
                    0,
                    0,
                    0,
                    None::<String>,
                    None::<String>,
                    false,
                    0,
                    None::<i64>,
                    0,
                    NOW,
                    NOW + 60_000
                ])?;
            }
        }
        transaction.commit()?;
    }
    Ok(2.0 * f64::from(STEPS) / start.elapsed().as_secs_f64())
}

/// Makes a table with the columns of the store's, and its actions in the order of their due times.
fn plain(db: &Connection) -> anyhow::Result<Vec<String>> {
    let mut columns = db.prepare("SELECT name FROM pragma_table_info('mcp_action_tasks')")?;
    let columns: Vec<String> = columns
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    db.execute_batch(&format!(
        "CREATE TABLE plain ({}, PRIMARY KEY (action_id)) WITHOUT ROWID;
         INSERT INTO plain SELECT * FROM mcp_action_tasks;
         CREATE INDEX plain_due ON plain (registration_id, next_due) WHERE next_due IS NOT NULL;
         PRAGMA wal_checkpoint(TRUNCATE);",
        columns.join(", ")
    ))?;
    let mut actions =
        db.prepare("SELECT action_id FROM plain ORDER BY next_due, registration_id")?;
    let actions = actions.query_map([], |row| row.get(0))?;
    Ok(actions.collect::<Result<_, _>>()?)
}

/// Rows in one transaction: the supervisor's claim.
const GROUP: usize = 32;

const LEASE: &str = "UPDATE plain SET lease_owner = ?2, lease_until = ?3, fence = fence + 1 \
    WHERE action_id = ?1";

const WRITE: &str = "UPDATE plain SET phase = ?2, starts = ?3, sent_at = ?4, kind = ?5, \
    remote_task_id = ?6, remote_created_at = ?7, remote_task_status = ?8, remote_ended = ?9, \
    progress = ?10, remote_ttl_ms = ?11, poll_interval_ms = ?12, polls = ?13, \
    last_polled_at = ?14, errors = ?15, gone = ?16, malformed = ?17, last_error = ?18, \
    input_requests = ?19, clean_up_open = ?20, cancel_asked = ?21, \
    cancel_acknowledged_at = ?22, looked = ?23, updated_at = ?24, next_due = ?25, \
    lease_owner = NULL, lease_until = NULL WHERE action_id = ?1";

const OWNER: &str = "8f14e45f-ceea-467f-a8a4-2c1d3b5e6f70";

const CREATED: &str = "2026-01-01T00:00:00Z";

const NOW: i64 = 1_800_000_000_000;
