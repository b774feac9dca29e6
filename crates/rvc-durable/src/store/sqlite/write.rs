use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::claim::{HELD, fence};
use super::rows;
use crate::linkage::{HostKind, Linkage};
use crate::moment::Moment;
use crate::outcome::Outcome;
use crate::store::record::{self, Value};
use crate::store::{Claim, StoreError, Write, Written};

pub(super) fn write(db: &Connection, now: Moment, write: &Write) -> Result<Written, StoreError> {
    if write.row.outcome.is_none()
        && write.row.phase == write.expect
        && write.leaves_answers()
        && update(db, now, write, Change::Plain)?
    {
        return Ok(Written::Applied);
    }
    let claim = &write.claim;
    let Some(Held { phase, is_linked }) = held(db, claim)? else {
        return Ok(Written::Stale);
    };
    if cancelled_by_run(db, &write.row)? {
        super::ledger::cancel_action(db, now, &claim.action)?;
        return overtaken(db, write);
    }
    if phase != write.expect.as_str() {
        return overtaken(db, write);
    }
    // A link is never changed.
    if !is_linked && remote_is_taken(db, &write.row)? {
        return Ok(Written::RemoteTaken);
    }
    if let Some((outcome, finished_at)) = record::brought(write) {
        finish(db, &write.row, outcome, finished_at)?;
    }
    update(db, now, write, Change::Guarded)?;
    for key in &write.answered {
        db.prepare_cached(
            "UPDATE mcp_input_answers SET sent = 1 WHERE action_id = ?1 AND input_key = ?2",
        )?
        .execute(params![claim.action.as_str(), key])?;
    }
    for key in &write.refused {
        db.prepare_cached(
            "DELETE FROM mcp_input_answers WHERE action_id = ?1 AND input_key = ?2 AND sent = 0",
        )?
        .execute(params![claim.action.as_str(), key])?;
    }
    Ok(Written::Applied)
}

/// The row that a claim still holds.
struct Held {
    phase: String,
    is_linked: bool,
}

fn held(db: &Connection, claim: &Claim) -> Result<Option<Held>, StoreError> {
    let held = db
        .prepare_cached(&HELD_ROW)?
        .query_row(
            params![claim.action.as_str(), claim.owner.to_string(), fence(claim)],
            |found| {
                Ok(Held {
                    phase: found.get(0)?,
                    is_linked: found.get(1)?,
                })
            },
        )
        .optional()?;
    Ok(held)
}

/// Whether the run was cancelled, while the row is about to get another end. A cancel settles
/// the actions of its run in one transaction, so this guards what should be impossible.
fn cancelled_by_run(db: &Connection, row: &Linkage) -> Result<bool, StoreError> {
    if !record::yields_to_a_cancel(row) {
        return Ok(false);
    }
    let pending: Option<bool> = db
        .prepare_cached(
            "SELECT r.state = 'cancelled' AND a.state = 'pending' FROM actions AS a \
             JOIN runs AS r USING (run_id) WHERE a.action_id = ?1",
        )?
        .query_row([row.action.as_str()], |row| row.get(0))
        .optional()?;
    Ok(pending.unwrap_or(false))
}

/// The phase of a row changes under a claim by the host's cancel alone.
fn overtaken(db: &Connection, write: &Write) -> Result<Written, StoreError> {
    match rows::row(db, &write.claim.action)? {
        None => Ok(Written::Stale),
        Some(row) if row.outcome.is_none() => Err(record::unexpected(row.phase, write)),
        Some(row) => Ok(Written::Overtaken(Box::new(row))),
    }
}

fn remote_is_taken(db: &Connection, row: &Linkage) -> Result<bool, StoreError> {
    let Some(remote) = &row.remote else {
        return Ok(false);
    };
    let holder: Option<String> = db
        .prepare_cached(
            "SELECT action_id FROM mcp_action_tasks WHERE registration_id = ?1 AND kind = ?2 \
             AND remote_task_id = ?3 AND remote_created_at = ?4",
        )?
        .query_row(
            params![
                row.registration.as_str(),
                remote.kind.as_str(),
                remote.id,
                remote.created_at
            ],
            |row| row.get(0),
        )
        .optional()?;
    Ok(holder.is_some_and(|holder| holder != row.action.as_str()))
}

/// The outcome and, in the ledger, the action's state: one transaction.
pub(super) fn finish(
    db: &Connection,
    row: &Linkage,
    outcome: &Outcome,
    finished_at: Moment,
) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO mcp_action_outcomes \
         (action_id, phase, error_code, message, is_error, result, finished_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(record::outcome_values(row, outcome, finished_at))?;
    if row.host == HostKind::Ledger {
        let changed = db
            .prepare_cached(
                "UPDATE actions SET state = ?2, finished_at = ?3 \
                 WHERE action_id = ?1 AND state = 'pending'",
            )?
            .execute(params![
                row.action.as_str(),
                outcome.state().as_str(),
                finished_at.unix_ms()
            ])?;
        if changed != 1 {
            return Err(StoreError::Constraint {
                detail: "the action had ended".to_owned(),
            });
        }
    }
    Ok(())
}

/// What a write changes of its row.
#[derive(Clone, Copy)]
enum Change {
    /// Nothing that triggers watch over, and no index other than that of the due times. Most
    /// polls bring nothing else, and are this one statement, which runs no trigger.
    Plain,
    Guarded,
}

/// Writes a row that its claim still holds, and says whether it did: as [`Change::Plain`] it does
/// not where there is more to change.
fn update(db: &Connection, now: Moment, write: &Write, change: Change) -> Result<bool, StoreError> {
    let row = &write.row;
    let owner = write.claim.owner.to_string();
    let mut values = Vec::with_capacity(29);
    values.extend([
        Value::text(write.claim.action.as_str()),
        Value::text(&owner),
        Value::count(write.claim.fence.get()),
    ]);
    values.extend(record::changes(row));
    values.extend([
        Value::moment(now),
        Value::some_moment(row.next_due),
        Value::count(write.claim.wakes),
        Value::Flag(write.keep_lease),
    ]);
    let sql: &str = match change {
        Change::Plain => &PLAIN,
        Change::Guarded => &GUARDED,
    };
    let changed = db.prepare_cached(sql)?.execute(params_from_iter(values))?;
    Ok(changed == 1)
}

static HELD_ROW: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT phase, remote_task_id IS NOT NULL FROM mcp_action_tasks WHERE {HELD}")
});

static PLAIN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "UPDATE mcp_action_tasks SET {CHANGED} WHERE {HELD} AND phase = ?4 AND starts = ?5 \
         AND sent_at IS ?6 AND kind IS ?7 AND remote_task_id IS ?8 AND remote_created_at IS ?9 \
         AND remote_task_status IS ?10 AND remote_ended = ?11 AND clean_up_open = ?22 \
         AND cancel_asked = ?23 AND cancel_acknowledged_at IS ?24 AND looked = ?25"
    )
});

static GUARDED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "UPDATE mcp_action_tasks SET {CHANGED}, phase = ?4, starts = ?5, sent_at = ?6, kind = ?7, \
         remote_task_id = ?8, remote_created_at = ?9, remote_task_status = ?10, \
         remote_ended = ?11, clean_up_open = ?22, cancel_asked = ?23, \
         cancel_acknowledged_at = ?24, looked = ?25 WHERE {HELD}"
    )
});

/// What both change.
const CHANGED: &str = "progress = ?12, remote_ttl_ms = ?13, poll_interval_ms = ?14, polls = ?15, \
    last_polled_at = ?16, errors = ?17, gone = ?18, malformed = ?19, last_error = ?20, \
    input_requests = ?21, updated_at = ?26, \
    next_due = CASE WHEN ?27 IS NOT NULL AND wakes > ?28 THEN min(?26, ?27) ELSE ?27 END, \
    lease_owner = CASE WHEN ?29 THEN lease_owner END, \
    lease_until = CASE WHEN ?29 THEN lease_until END";
