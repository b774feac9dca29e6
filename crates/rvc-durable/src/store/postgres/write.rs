use futures_util::future::{BoxFuture, join, join3};

use super::claim::{HELD, held};
use super::database::{Database, Scope, Session};
use super::failure::{Failure, ONE_ACTION_PER_REMOTE_TASK};
use super::values::get;
use super::{ledger, listener, rows};
use crate::linkage::{HostKind, Linkage};
use crate::moment::Moment;
use crate::outcome::Outcome;
use crate::phase::Phase;
use crate::store::record::{self, Value};
use crate::store::{StoreError, Write, Written};

/// Writes a claimed row back.
pub(super) async fn write(database: &Database, write: &Write) -> Result<Written, StoreError> {
    let written = async {
        if let Some(written) = database.run(Scope::Statement, write, apply).await? {
            return Ok(written);
        }
        database.run(Scope::Transaction, write, decide).await
    };
    match written.await {
        Err(StoreError::Constraint { detail }) if detail.contains(ONE_ACTION_PER_REMOTE_TASK) => {
            Ok(Written::RemoteTaken)
        }
        other => other,
    }
}

/// The whole of a write that neither ends an action nor changes its answers, in one statement.
/// `None` where that did not fit, and nothing was changed.
fn apply<'a>(
    session: &'a Session<'a>,
    write: &'a Write,
) -> BoxFuture<'a, Result<Option<Written>, Failure>> {
    Box::pin(async move {
        if record::brought(write).is_some() || !write.leaves_answers() {
            return Ok(None);
        }
        let applied = update(session, write).await?;
        Ok(applied.then_some(Written::Applied))
    })
}

/// A write in a transaction that looks first.
fn decide<'a>(
    session: &'a Session<'a>,
    write: &'a Write,
) -> BoxFuture<'a, Result<Written, Failure>> {
    Box::pin(async move {
        let action = &write.claim.action;
        let (standing, current, run) = join3(
            standing(session, write),
            // Another statement sees what was committed while the first waited for the row.
            rows::row(session, action),
            cancelled_by_run(session, write),
        )
        .await;
        let (Some(standing), Some(current), run_cancelled) = (standing?, current?, run?) else {
            return Ok(Written::Stale);
        };
        // First of all: that the lease is gone or the phase another may be this write's doing.
        if standing.done {
            return Ok(Written::Applied);
        }
        if !standing.held {
            return Ok(Written::Stale);
        }
        if run_cancelled {
            ledger::settle(session, standing.now, vec![current]).await?;
            let settled = rows::row(session, action).await?;
            return Ok(settled.map_or(Written::Stale, |row| Written::Overtaken(Box::new(row))));
        }
        if current.phase != write.expect {
            // The phase of a row changes under a claim by the host's cancel alone.
            if current.outcome.is_some() {
                return Ok(Written::Overtaken(Box::new(current)));
            }
            return Err(record::unexpected(current.phase, write).into());
        }
        if let Some((outcome, finished_at)) = record::brought(write) {
            finish(session, &write.row, outcome, finished_at).await?;
        }
        if !update(session, write).await? {
            return Err(Failure::Raced);
        }
        for key in &write.answered {
            let sql =
                "UPDATE mcp_input_answers SET sent = true WHERE action_id = $1 AND input_key = $2";
            let values = [Value::text(action.as_str()), Value::text(key)];
            session.change(sql, &values).await?;
        }
        for key in &write.refused {
            let sql = "DELETE FROM mcp_input_answers WHERE action_id = $1 AND input_key = $2 \
                AND NOT sent";
            let values = [Value::text(action.as_str()), Value::text(key)];
            session.change(sql, &values).await?;
        }
        Ok(Written::Applied)
    })
}

/// Whether losing a write with the server's memory costs no more than a poll: the lease runs
/// out, and the same is found out again. That of leases is as harmless, see `claim`; starts,
/// links, outcomes, cancels, their acknowledgements, answers and deliveries are no bookkeeping.
fn is_bookkeeping(write: &Write) -> bool {
    write.row.phase == write.expect
        && matches!(
            write.expect,
            Phase::Intent | Phase::Working | Phase::InputRequired
        )
        && write.row.outcome.is_none()
        && write.leaves_answers()
        && !write.keep_lease
}

/// How a row stands towards a write.
struct Standing {
    now: Moment,
    held: bool,
    /// This very write is committed already.
    done: bool,
}

/// Locks the row.
async fn standing(session: &Session<'_>, write: &Write) -> Result<Option<Standing>, Failure> {
    let sql = "SELECT store_now($4), coalesce(t.lease_owner = $2 AND t.fence = $3, false), \
        $5::text::uuid = ANY (t.recent_writes) \
        FROM mcp_action_tasks AS t WHERE t.action_id = $1 FOR NO KEY UPDATE";
    let (owner, id) = (write.claim.owner.to_string(), write.id.to_string());
    let [action, owner, fence] = held(&write.claim, &owner);
    let values = [action, owner, fence, session.at(), Value::text(&id)];
    let row = session.row(sql, &values).await?;
    let read = |row: tokio_postgres::Row| {
        Ok::<_, StoreError>(Standing {
            now: Moment::from_unix_ms(get(&row, 0)?),
            held: get(&row, 1)?,
            done: get(&row, 2)?,
        })
    };
    Ok(row.map(read).transpose()?)
}

/// Whether the run was cancelled, while the row is about to get another end. A cancel settles
/// the actions of its run in one transaction, so this guards what should be impossible.
async fn cancelled_by_run(session: &Session<'_>, write: &Write) -> Result<bool, Failure> {
    let row = &write.row;
    if !record::yields_to_a_cancel(row) {
        return Ok(false);
    }
    let sql = "SELECT FROM actions AS a JOIN runs AS r USING (run_id) WHERE a.action_id = $1 \
        AND r.state = 'cancelled' AND a.state = 'pending'";
    let found = session
        .row(sql, &[Value::text(row.action.as_str())])
        .await?;
    Ok(found.is_some())
}

/// The outcome and, in the ledger, the action's state: one transaction.
pub(super) async fn finish(
    session: &Session<'_>,
    row: &Linkage,
    outcome: &Outcome,
    finished_at: Moment,
) -> Result<(), Failure> {
    let values = record::outcome_values(row, outcome, finished_at);
    let inserted = session.change(
        "INSERT INTO mcp_action_outcomes \
         (action_id, phase, error_code, message, is_error, result, finished_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &values,
    );
    session.tell(listener::changed(&row.action));
    if row.host == HostKind::Foreign {
        inserted.await?;
        return Ok(());
    }
    let values = [
        Value::text(row.action.as_str()),
        Value::text(outcome.state().as_str()),
        Value::moment(finished_at),
    ];
    let ended = session.change(
        "UPDATE actions SET state = $2, finished_at = $3 \
         WHERE action_id = $1 AND state = 'pending'",
        &values,
    );
    let (inserted, ended) = join(inserted, ended).await;
    inserted?;
    if ended? != 1 {
        return Err(ended_before());
    }
    Ok(())
}

/// What should be impossible: the ledger's action of a row without an outcome has ended.
pub(super) fn ended_before() -> Failure {
    StoreError::Constraint {
        detail: "the action had ended".to_owned(),
    }
    .into()
}

/// Whether the row was as expected, and is written.
async fn update(session: &Session<'_>, write: &Write) -> Result<bool, Failure> {
    let sql = format!(
        "WITH pace AS MATERIALIZED (SELECT store_now($31) AS now, CASE WHEN $32::boolean \
             THEN set_config('synchronous_commit', 'off', true) END AS pace) \
         UPDATE mcp_action_tasks AS t SET phase = $4, starts = $5, sent_at = $6, kind = $7, \
         remote_task_id = $8, remote_created_at = $9, remote_task_status = $10, \
         remote_ended = $11, progress = $12, remote_ttl_ms = $13, poll_interval_ms = $14, \
         polls = $15, last_polled_at = $16, errors = $17, gone = $18, malformed = $19, \
         last_error = $20, input_requests = $21, clean_up_open = $22, cancel_asked = $23, \
         cancel_acknowledged_at = $24, looked = $25, updated_at = pace.now, \
         next_due = CASE WHEN $26::bigint IS NOT NULL AND t.wakes > $27 \
             THEN least(pace.now, $26) ELSE $26 END, \
         lease_owner = CASE WHEN $28::boolean THEN t.lease_owner END, \
         lease_until = CASE WHEN $28::boolean THEN t.lease_until END, \
         recent_writes = CASE WHEN $32::boolean THEN t.recent_writes \
             ELSE (ARRAY[$30::text::uuid] || t.recent_writes)[1:{REMEMBERED}] END \
         FROM pace WHERE {HELD} AND t.phase = $29"
    );
    let (owner, id) = (write.claim.owner.to_string(), write.id.to_string());
    let mut values = held(&write.claim, &owner).to_vec();
    values.extend(record::changes(&write.row));
    values.extend([
        Value::some_moment(write.row.next_due),
        Value::count(write.claim.wakes),
        Value::Flag(write.keep_lease),
        Value::text(write.expect.as_str()),
        Value::text(&id),
        session.at(),
        Value::Flag(is_bookkeeping(write)),
    ]);
    Ok(session.change(&sql, &values).await? == 1)
}

/// Writes that a row remembers. An action has about three that are more than bookkeeping, and
/// an attempt is repeated while its lease lasts.
const REMEMBERED: usize = 8;
