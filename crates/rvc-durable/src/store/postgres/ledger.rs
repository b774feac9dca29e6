use std::sync::{Mutex, PoisonError};

use futures_util::future::{BoxFuture, join, join3};

use super::database::Session;
use super::failure::Failure;
use super::values::{get, hidden};
use super::write::ended_before;
use super::{listener, rows};
use crate::linkage::{HostKind, Linkage};
use crate::moment::Moment;
use crate::name::{ActionId, RunId};
use crate::outcome::Outcome;
use crate::plan;
use crate::store::record::{self, Value};
use crate::store::{CancelOutcome, Submitted};
use crate::submission::Submission;

/// Rows are locked in one order everywhere: run, then linkage, then action.
pub(super) fn submit<'a>(
    session: &'a Session<'a>,
    (submission, host): &'a (Submission, HostKind),
) -> BoxFuture<'a, Result<Submitted, Failure>> {
    Box::pin(async move {
        let action = &submission.action;
        let hash = submission.request_hash();
        let key = [Value::text(action.as_str())];
        let (now, known, row) = join3(
            session.now(),
            session.row(
                "SELECT request_hash FROM mcp_action_tasks WHERE action_id = $1",
                &key,
            ),
            rows::row(session, action),
        )
        .await;
        let (now, known, row) = (now?, known?, row?);
        if let Some(known) = known {
            let is_same = record::text(&known, 0)? == hash;
            return Ok(record::resubmitted(row, is_same, *host));
        }
        if *host == HostKind::Ledger {
            if let Some(refused) = open_run(session, now, submission).await? {
                return Ok(refused);
            }
            let values = [
                Value::text(action.as_str()),
                Value::text(submission.run.as_str()),
            ];
            let sql = "INSERT INTO actions (action_id, run_id) VALUES ($1, $2) \
                ON CONFLICT DO NOTHING";
            if session.change(sql, &values).await? == 0 {
                return Err(Failure::Raced);
            }
        }
        let sql = "INSERT INTO mcp_action_tasks (action_id, run_id, owner_id, registration_id, \
            host, tool, arguments, request_hash, policy, surfaces_input, execution_deadline_at, \
            assumed_ttl_ms, tool_call_id, provider, created_at, next_due, updated_at) VALUES \
            ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $15) \
            ON CONFLICT DO NOTHING";
        let intent = Linkage::intent(submission, *host, now);
        if session.change(sql, &record::intent(&intent, &hash)).await? == 0 {
            return Err(Failure::Raced);
        }
        session.tell(listener::due());
        Ok(Submitted::New)
    })
}

/// The run of a submission, opened where it is new; or why it cannot be used. A cancel of the
/// run waits until the submission is committed, and finds it.
async fn open_run(
    session: &Session<'_>,
    now: Moment,
    submission: &Submission,
) -> Result<Option<Submitted>, Failure> {
    let values = [
        Value::text(submission.run.as_str()),
        Value::text(submission.owner.as_str()),
        Value::moment(now),
    ];
    let (opened, run) = join(
        session.change(
            "INSERT INTO runs (run_id, owner_id, created_at) VALUES ($1, $2, $3) \
             ON CONFLICT DO NOTHING",
            &values,
        ),
        session.row(
            "SELECT owner_id, state FROM runs WHERE run_id = $1 FOR SHARE",
            &values[..1],
        ),
    )
    .await;
    opened?;
    let run = run?.ok_or(Failure::Raced)?;
    let (owner, state) = (record::text(&run, 0)?, record::text(&run, 1)?);
    Ok(record::refused_by_run(submission, &owner, &state))
}

pub(super) fn cancel_action<'a>(
    session: &'a Session<'a>,
    action: &'a ActionId,
) -> BoxFuture<'a, Result<CancelOutcome, Failure>> {
    Box::pin(async move {
        let Some((now, row)) = lock(session, action).await? else {
            return Ok(CancelOutcome::Unknown);
        };
        match &row.outcome {
            // The answer to the commit was lost: that was this cancel, or as good as this.
            Some(outcome) if session.again() && *outcome == Outcome::cancelled_by_host() => {
                Ok(CancelOutcome::Cancelled)
            }
            Some(_) => Ok(CancelOutcome::Ended(Box::new(row))),
            None => {
                settle(session, now, vec![row]).await?;
                Ok(CancelOutcome::Cancelled)
            }
        }
    })
}

/// Locks an action's row, and reads it as it is then, with the time.
pub(super) async fn lock(
    session: &Session<'_>,
    action: &ActionId,
) -> Result<Option<(Moment, Linkage)>, Failure> {
    let values = [Value::text(action.as_str()), session.at()];
    let (locked, row) = join(
        session.row(
            "SELECT store_now($2) FROM mcp_action_tasks WHERE action_id = $1 FOR NO KEY UPDATE",
            &values,
        ),
        // Another statement sees what was committed while the first waited for the row.
        rows::row(session, action),
    )
    .await;
    let (Some(locked), Some(row)) = (locked?, row?) else {
        return Ok(None);
    };
    Ok(Some((Moment::from_unix_ms(get(&locked, 0)?), row)))
}

/// Locks the rows of several actions in the order of their ids, and reads them as they are then.
async fn lock_all(session: &Session<'_>, actions: &[ActionId]) -> Result<Vec<Linkage>, Failure> {
    let actions: Vec<_> = actions.iter().map(|it| hidden(it.as_str())).collect();
    let (locked, rows) = join(
        session.query(
            "SELECT FROM mcp_action_tasks WHERE action_id = ANY ($1::text[]) \
             ORDER BY action_id FOR NO KEY UPDATE",
            &[&actions],
        ),
        rows::all(session, &actions),
    )
    .await;
    locked?;
    rows
}

/// Cancels actions without an outcome, whose rows are locked: a few statements, however many
/// they are.
pub(super) async fn settle(
    session: &Session<'_>,
    now: Moment,
    rows: Vec<Linkage>,
) -> Result<(), Failure> {
    let cancelled = Outcome::cancelled_by_host();
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| plan::settled(row, cancelled.clone(), now))
        .collect();
    let Some(first) = rows.first() else {
        return Ok(());
    };
    let all: Vec<_> = rows.iter().map(|row| hidden(row.action.as_str())).collect();
    let open: Vec<_> = rows.iter().map(|row| row.clean_up.open).collect();
    let due: Vec<_> = rows
        .iter()
        .map(|row| row.next_due.map(Moment::unix_ms))
        .collect();
    let in_ledger = |row: &&Linkage| row.host == HostKind::Ledger;
    let of_ledger = rows.iter().filter(in_ledger);
    let of_ledger: Vec<_> = of_ledger.map(|row| hidden(row.action.as_str())).collect();
    let [_, phase, code, message, is_error, result, at] =
        record::outcome_values(first, &cancelled, now);
    let state = cancelled.state().as_str();
    let (outcomes, actions, tasks) = join3(
        session.query(
            "INSERT INTO mcp_action_outcomes \
             (action_id, phase, error_code, message, is_error, result, finished_at) \
             SELECT action, $2, $3, $4, $5, $6, $7 FROM unnest($1::text[]) AS action",
            &[&all, &phase, &code, &message, &is_error, &result, &at],
        ),
        session.query(
            "UPDATE actions SET state = $2, finished_at = $3 \
             WHERE action_id = ANY ($1::text[]) AND state = 'pending' RETURNING 1",
            &[&of_ledger, &state, &at],
        ),
        // Whoever holds a lease keeps it: its next write is overtaken, and it learns why.
        session.query(
            "UPDATE mcp_action_tasks AS t SET phase = $4, clean_up_open = new.open, \
             next_due = new.due, input_requests = NULL, errors = 0, gone = 0, malformed = 0, \
             wakes = wakes + 1, updated_at = $5 \
             FROM unnest($1::text[], $2::boolean[], $3::bigint[]) AS new (action, open, due) \
             WHERE t.action_id = new.action",
            &[&all, &open, &due, &phase, &at],
        ),
    )
    .await;
    outcomes?;
    if actions?.len() != of_ledger.len() {
        return Err(ended_before());
    }
    tasks?;
    for row in &rows {
        session.tell(listener::changed(&row.action));
    }
    session.tell(listener::due());
    Ok(())
}

/// A run to cancel, and the actions that attempts found pending.
pub(super) struct RunCancel {
    run: RunId,
    found: Mutex<Vec<ActionId>>,
}

impl RunCancel {
    pub(super) fn new(run: RunId) -> Self {
        Self {
            run,
            found: Mutex::default(),
        }
    }
}

pub(super) fn cancel_run<'a>(
    session: &'a Session<'a>,
    cancel: &'a RunCancel,
) -> BoxFuture<'a, Result<Option<Vec<ActionId>>, Failure>> {
    Box::pin(async move {
        let now = session.now().await?;
        let known = session
            .change(
                "UPDATE runs SET state = 'cancelled', \
                 cancelled_at = coalesce(cancelled_at, $2) WHERE run_id = $1",
                &[Value::text(cancel.run.as_str()), Value::moment(now)],
            )
            .await?;
        if known == 0 {
            return Ok(None);
        }
        let pending = session
            .rows(
                "SELECT action_id FROM actions WHERE run_id = $1 AND state = 'pending' \
                 ORDER BY action_id",
                &[Value::text(cancel.run.as_str())],
            )
            .await?;
        let mut wanted = cancel
            .found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for row in &pending {
            wanted.push(record::word(&record::text(row, 0)?)?);
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut pending = lock_all(session, &wanted).await?;
        // Those with an outcome ended before, but for what an attempt of this whose commit was
        // not answered did.
        let by_host = Some(Outcome::cancelled_by_host());
        pending.retain(|row| row.outcome.is_none() || session.again() && row.outcome == by_host);
        let cancelled: Vec<_> = pending.iter().map(|row| row.action.clone()).collect();
        pending.retain(|row| row.outcome.is_none());
        settle(session, now, pending).await?;
        cancel
            .found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&cancelled);
        Ok(Some(cancelled))
    })
}
