use rusqlite::{Connection, OptionalExtension, params};

use super::rows;
use super::write::finish;
use crate::linkage::{HostKind, Linkage};
use crate::moment::Moment;
use crate::name::{ActionId, RunId};
use crate::outcome::Outcome;
use crate::plan;
use crate::store::record;
use crate::store::{CancelOutcome, StoreError, Submitted};
use crate::submission::Submission;

pub(super) fn submit(
    db: &Connection,
    now: Moment,
    submission: &Submission,
    host: HostKind,
) -> Result<Submitted, StoreError> {
    let hash = submission.request_hash();
    let known: Option<String> = db
        .prepare_cached("SELECT request_hash FROM mcp_action_tasks WHERE action_id = ?1")?
        .query_row([submission.action.as_str()], |row| row.get(0))
        .optional()?;
    if let Some(known) = known {
        let row = rows::row(db, &submission.action)?;
        return Ok(record::resubmitted(row, known == hash, host));
    }
    if host == HostKind::Ledger {
        if let Some(refused) = open_run(db, now, submission)? {
            return Ok(refused);
        }
        db.prepare_cached("INSERT INTO actions (action_id, run_id) VALUES (?1, ?2)")?
            .execute([submission.action.as_str(), submission.run.as_str()])?;
    }
    insert(db, &Linkage::intent(submission, host, now), &hash)?;
    Ok(Submitted::New)
}

/// The run of a submission, opened where it is new; or why it cannot be used.
fn open_run(
    db: &Connection,
    now: Moment,
    submission: &Submission,
) -> Result<Option<Submitted>, StoreError> {
    db.prepare_cached(
        "INSERT INTO runs (run_id, owner_id, created_at) VALUES (?1, ?2, ?3) \
         ON CONFLICT DO NOTHING",
    )?
    .execute(params![
        submission.run.as_str(),
        submission.owner.as_str(),
        now.unix_ms()
    ])?;
    let (owner, state): (String, String) = db
        .prepare_cached("SELECT owner_id, state FROM runs WHERE run_id = ?1")?
        .query_row([submission.run.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    Ok(record::refused_by_run(submission, &owner, &state))
}

fn insert(db: &Connection, row: &Linkage, hash: &str) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO mcp_action_tasks (action_id, run_id, owner_id, registration_id, host, tool, \
         arguments, request_hash, policy, surfaces_input, execution_deadline_at, assumed_ttl_ms, \
         tool_call_id, provider, created_at, next_due, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15, ?15)",
    )?
    .execute(record::intent(row, hash))?;
    Ok(())
}

pub(super) fn cancel_action(
    db: &Connection,
    now: Moment,
    action: &ActionId,
) -> Result<CancelOutcome, StoreError> {
    let Some(row) = rows::row(db, action)? else {
        return Ok(CancelOutcome::Unknown);
    };
    if row.outcome.is_some() {
        return Ok(CancelOutcome::Ended(Box::new(row)));
    }
    let row = plan::settled(row, Outcome::cancelled_by_host(), now);
    let outcome = row.outcome.as_ref().expect("it was just settled");
    finish(db, &row, outcome, now)?;
    // Whoever holds the lease keeps it: its next write is overtaken, and it learns why.
    db.prepare_cached(
        "UPDATE mcp_action_tasks SET phase = ?2, clean_up_open = ?3, next_due = ?4, \
         input_requests = NULL, errors = 0, gone = 0, malformed = 0, wakes = wakes + 1, \
         updated_at = ?5 WHERE action_id = ?1",
    )?
    .execute(params![
        action.as_str(),
        row.phase.as_str(),
        row.clean_up.open,
        row.next_due.map(Moment::unix_ms),
        now.unix_ms()
    ])?;
    Ok(CancelOutcome::Cancelled)
}

pub(super) fn cancel_run(
    db: &Connection,
    now: Moment,
    run: &RunId,
) -> Result<Option<Vec<ActionId>>, StoreError> {
    let known = db
        .prepare_cached(
            "UPDATE runs SET state = 'cancelled', cancelled_at = coalesce(cancelled_at, ?2) \
             WHERE run_id = ?1",
        )?
        .execute(params![run.as_str(), now.unix_ms()])?;
    if known == 0 {
        return Ok(None);
    }
    let pending: Vec<String> = db
        .prepare_cached("SELECT action_id FROM actions WHERE run_id = ?1 AND state = 'pending'")?
        .query_map([run.as_str()], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut cancelled = Vec::new();
    for action in pending {
        let action: ActionId = record::word(&action)?;
        cancel_action(db, now, &action)?;
        cancelled.push(action);
    }
    Ok(Some(cancelled))
}
