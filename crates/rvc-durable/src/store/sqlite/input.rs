use rusqlite::{Connection, params};
use rvc_wire::Map;

use super::rows;
use crate::linkage::RemoteKind;
use crate::moment::Moment;
use crate::name::{ActionId, RegistrationId};
use crate::store::{AnswerOutcome, StoreError};

pub(super) fn answer(
    db: &Connection,
    now: Moment,
    action: &ActionId,
    answers: &Map,
) -> Result<AnswerOutcome, StoreError> {
    let Some(row) = rows::row(db, action)? else {
        return Ok(AnswerOutcome::Unknown);
    };
    // A key is never reused, so it is answered once. What the server refused is not there any more.
    let mut answered = db.prepare_cached(
        "SELECT 1 FROM mcp_input_answers WHERE action_id = ?1 AND input_key = ?2",
    )?;
    for key in answers.keys() {
        if !row.input_requests.contains_key(key)
            || answered.exists(params![action.as_str(), key])?
        {
            return Ok(AnswerOutcome::NotAsked);
        }
    }
    if answers.is_empty() {
        return Ok(AnswerOutcome::NotAsked);
    }
    for (key, answer) in answers {
        db.prepare_cached(
            "INSERT INTO mcp_input_answers (action_id, input_key, answer) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![action.as_str(), key, answer.to_string()])?;
    }
    wake(db, now, action)?;
    Ok(AnswerOutcome::Stored)
}

pub(super) fn wake(db: &Connection, now: Moment, action: &ActionId) -> Result<bool, StoreError> {
    let woken = db
        .prepare_cached(
            "UPDATE mcp_action_tasks SET wakes = wakes + 1, next_due = min(next_due, ?2) \
             WHERE action_id = ?1 AND next_due IS NOT NULL",
        )?
        .execute(params![action.as_str(), now.unix_ms()])?;
    Ok(woken == 1)
}

pub(super) fn wake_remote(
    db: &Connection,
    now: Moment,
    registration: &RegistrationId,
    kind: RemoteKind,
    id: &str,
) -> Result<u64, StoreError> {
    let woken = db
        .prepare_cached(
            "UPDATE mcp_action_tasks SET wakes = wakes + 1, next_due = min(next_due, ?4) \
             WHERE registration_id = ?1 AND kind = ?2 AND remote_task_id = ?3 \
             AND next_due IS NOT NULL",
        )?
        .execute(params![
            registration.as_str(),
            kind.as_str(),
            id,
            now.unix_ms()
        ])?;
    Ok(u64::try_from(woken).unwrap_or(u64::MAX))
}
