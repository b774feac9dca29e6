use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};
use rvc_wire::Map;
use serde_json::Value;

use crate::envelope::ToolResultEnvelope;
use crate::error_code::ErrorCode;
use crate::linkage::{CleanUp, Linkage, RemoteTask, Trouble};
use crate::moment::Moment;
use crate::name::{ActionId, RunId};
use crate::outcome::Outcome;
use crate::phase::Phase;
use crate::plan::{HORIZON, RunState};
use crate::store::{Census, Filter, StoreError};
use crate::submission::InputHandling;

/// Every column of a row and of its outcome, in the order that [`read`] takes.
pub(super) const COLUMNS: &str = "t.action_id, t.run_id, t.owner_id, t.registration_id, t.host, \
    t.tool, t.arguments, t.policy, t.surfaces_input, t.execution_deadline_at, t.assumed_ttl_ms, \
    t.tool_call_id, t.provider, t.created_at, t.phase, t.starts, t.sent_at, t.kind, \
    t.remote_task_id, t.remote_created_at, t.remote_task_status, t.remote_ended, t.progress, \
    t.remote_ttl_ms, t.poll_interval_ms, t.polls, t.last_polled_at, t.errors, t.gone, \
    t.malformed, t.last_error, t.input_requests, t.clean_up_open, t.cancel_asked, \
    t.cancel_acknowledged_at, t.looked, t.next_due, o.phase, o.error_code, o.message, o.result, \
    o.finished_at";

/// Where they come from.
pub(super) const SOURCE: &str =
    "mcp_action_tasks AS t LEFT JOIN mcp_action_outcomes AS o USING (action_id)";

/// Reads a row of [`COLUMNS`].
pub(super) fn read(row: &Row<'_>) -> Result<Linkage, StoreError> {
    let kind: Option<String> = row.get(17)?;
    let remote = match kind {
        None => None,
        Some(kind) => Some(RemoteTask {
            kind: word(&kind)?,
            id: row.get(18)?,
            created_at: row.get(19)?,
            status: row.get::<_, Option<String>>(20)?.unwrap_or_default(),
            ended: row.get(21)?,
            progress: row.get(22)?,
            ttl: row.get::<_, Option<i64>>(23)?.map(duration),
            poll_interval: row.get::<_, Option<i64>>(24)?.map(duration),
        }),
    };
    let phase: Phase = word(&row.get::<_, String>(14)?)?;
    let outcome = match row.get::<_, Option<String>>(37)? {
        None => None,
        // It was known, and the host cancelled before it was told.
        Some(known) if phase == Phase::Cancelled && known != phase.as_str() => {
            Some(Outcome::cancelled_by_host())
        }
        Some(phase) => Some(Outcome {
            phase: word(&phase)?,
            error_code: row.get::<_, Option<String>>(38)?.map(ErrorCode::remote),
            message: row.get(39)?,
            result: envelope(row.get::<_, Option<String>>(40)?)?,
        }),
    };
    let surfaces_input: bool = row.get(8)?;
    Ok(Linkage {
        action: word(&row.get::<_, String>(0)?)?,
        run: word(&row.get::<_, String>(1)?)?,
        owner: word(&row.get::<_, String>(2)?)?,
        registration: word(&row.get::<_, String>(3)?)?,
        host: match row.get::<_, String>(4)?.as_str() {
            "foreign" => crate::linkage::HostKind::Foreign,
            _ => crate::linkage::HostKind::Ledger,
        },
        tool: row.get(5)?,
        arguments: map(Some(row.get(6)?))?,
        policy: word(&row.get::<_, String>(7)?)?,
        input: if surfaces_input {
            InputHandling::Surface
        } else {
            InputHandling::Unsupported
        },
        deadline_at: moment(row.get(9)?),
        assumed_ttl: row.get::<_, Option<i64>>(10)?.map(duration),
        tool_call_id: row.get(11)?,
        provider: row.get(12)?,
        created_at: Moment::from_unix_ms(row.get(13)?),
        phase,
        starts: row.get(15)?,
        sent_at: moment(row.get(16)?),
        remote,
        polls: u64::try_from(row.get::<_, i64>(25)?).unwrap_or(0),
        polled_at: moment(row.get(26)?),
        trouble: Trouble {
            errors: row.get(27)?,
            gone: row.get(28)?,
            malformed: row.get(29)?,
            last: row.get(30)?,
        },
        input_requests: map(row.get(31)?)?,
        clean_up: CleanUp {
            open: row.get(32)?,
            asked: row.get(33)?,
            acknowledged_at: moment(row.get(34)?),
            looked: row.get(35)?,
        },
        outcome,
        finished_at: moment(row.get(41)?),
        next_due: moment(row.get(36)?),
    })
}

pub(super) fn row(db: &Connection, action: &ActionId) -> Result<Option<Linkage>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM {SOURCE} WHERE t.action_id = ?1");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([action.as_str()])?;
    rows.next()?.map(read).transpose()
}

pub(super) fn list(db: &Connection, filter: &Filter) -> Result<Vec<Linkage>, StoreError> {
    let phases: Vec<&str> = filter.phases.iter().map(|phase| phase.as_str()).collect();
    let phases = serde_json::to_string(&phases).expect("texts");
    let limit = match filter.limit {
        0 => -1,
        limit => i64::from(limit),
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM {SOURCE} WHERE (?1 IS NULL OR t.run_id = ?1) \
         AND (?2 = '[]' OR t.phase IN (SELECT value FROM json_each(?2))) \
         ORDER BY t.created_at DESC, t.action_id LIMIT ?3"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let run = filter.run.as_ref().map(crate::name::RunId::as_str);
    let mut rows = statement.query(params![run, phases, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

// Work for a closure in `Store::census`, which gives the time by value.
pub(super) fn census(db: &Connection, now: Moment) -> Result<Census, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT phase, count(*) FROM mcp_action_tasks GROUP BY phase")?;
    let mut rows = statement.query([])?;
    let mut census = Census::default();
    while let Some(row) = rows.next()? {
        let count = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
        census
            .phases
            .push((word(&row.get::<_, String>(0)?)?, count));
    }
    census
        .phases
        .sort_by_key(|(phase, _)| Phase::ALL.iter().position(|it| it == phase));
    let count = |sql: &str| -> Result<u64, StoreError> {
        let count: i64 = db.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    };
    census.open = count("SELECT count(*) FROM mcp_action_tasks WHERE next_due IS NOT NULL")?;
    census.cancels_unacknowledged = count(
        "SELECT count(*) FROM mcp_action_tasks WHERE clean_up_open = 1 \
         AND cancel_acknowledged_at IS NULL",
    )?;
    let earliest: Option<i64> = db
        .prepare_cached("SELECT min(next_due) FROM mcp_action_tasks WHERE next_due IS NOT NULL")?
        .query_row([], |row| row.get(0))?;
    census.due_lag = moment(earliest).map_or(Duration::ZERO, |due| now.since(due).min(HORIZON));
    Ok(census)
}

/// The ledger's run.
pub(super) fn run(db: &Connection, run: &RunId) -> Result<Option<RunState>, StoreError> {
    let state: Option<String> = db
        .prepare_cached("SELECT state FROM runs WHERE run_id = ?1")?
        .query_row([run.as_str()], |row| row.get(0))
        .optional()?;
    Ok(state.map(|state| match state.as_str() {
        "active" => RunState::Active,
        _ => RunState::Cancelled,
    }))
}

/// The answers of the host that were not sent yet.
pub(super) fn answers(db: &Connection, row: &Linkage) -> Result<Map, StoreError> {
    let mut answers = Map::new();
    if !row.input_requests.is_empty() {
        let mut statement = db.prepare_cached(
            "SELECT input_key, answer FROM mcp_input_answers WHERE action_id = ?1 AND sent = 0",
        )?;
        let mut rows = statement.query([row.action.as_str()])?;
        while let Some(row) = rows.next()? {
            answers.insert(row.get(0)?, json(&row.get::<_, String>(1)?)?);
        }
    }
    Ok(answers)
}

/// A word of the schema, or an id.
pub(super) fn word<T>(text: &str) -> Result<T, StoreError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error| corrupt(&error))
}

fn json(text: &str) -> Result<Value, StoreError> {
    serde_json::from_str(text).map_err(|error| corrupt(&error))
}

fn map(text: Option<String>) -> Result<Map, StoreError> {
    match text {
        None => Ok(Map::new()),
        Some(text) => serde_json::from_str(&text).map_err(|error| corrupt(&error)),
    }
}

fn envelope(text: Option<String>) -> Result<Option<ToolResultEnvelope>, StoreError> {
    text.map(|text| serde_json::from_str(&text).map_err(|error| corrupt(&error)))
        .transpose()
}

fn corrupt(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt {
        detail: error.to_string(),
    }
}

fn moment(ms: Option<i64>) -> Option<Moment> {
    ms.map(Moment::from_unix_ms)
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Milliseconds of a duration, at most as many as fit a column.
pub(super) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
