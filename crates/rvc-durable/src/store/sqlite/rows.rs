use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use rusqlite::types::{Null, ToSqlOutput};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::claim;
use super::raw_row::RawRow;
use crate::linkage::Linkage;
use crate::moment::Moment;
use crate::name::ActionId;
use crate::phase::Phase;
use crate::plan::{HORIZON, RunState};
use crate::store::record::{self, COLUMNS, Columns, OUTCOME, SOURCE, Value};
use crate::store::{Census, Filter, StoreError};

impl Columns for Row<'_> {
    fn text(&self, column: usize) -> Result<Option<Cow<'_, str>>, StoreError> {
        let text = self.get_ref(column)?.as_str_or_null();
        let text = text.map_err(|error| StoreError::Corrupt {
            detail: format!("column {column}: {error}"),
        })?;
        Ok(text.map(Cow::Borrowed))
    }

    fn number(&self, column: usize) -> Result<Option<i64>, StoreError> {
        Ok(self.get(column)?)
    }

    fn flag(&self, column: usize) -> Result<bool, StoreError> {
        Ok(self.get(column)?)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => match text {
                Some(text) => text.as_ref().to_sql(),
                None => Ok(Null.into()),
            },
            Self::Number(number) => number.to_sql(),
            Self::Flag(flag) => flag.to_sql(),
        }
    }
}

pub(super) fn row(db: &Connection, action: &ActionId) -> Result<Option<Linkage>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, {OUTCOME} FROM {SOURCE} WHERE t.action_id = ?1");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([action.as_str()])?;
    rows.next()?.map(record::linkage).transpose()
}

pub(super) fn list(db: &Connection, filter: &Filter) -> Result<Vec<Linkage>, StoreError> {
    let phases: Vec<&str> = filter.phases.iter().map(|phase| phase.as_str()).collect();
    let phases = serde_json::to_string(&phases).expect("texts");
    let limit = match filter.limit {
        0 => -1,
        limit => i64::from(limit),
    };
    let sql = format!(
        "SELECT {COLUMNS}, {OUTCOME} FROM {SOURCE} WHERE (?1 IS NULL OR t.run_id = ?1) \
         AND (?2 = '[]' OR t.phase IN (SELECT value FROM json_each(?2))) \
         ORDER BY t.created_at DESC, t.action_id LIMIT ?3"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let run = filter.run.as_ref().map(crate::name::RunId::as_str);
    let mut rows = statement.query(params![run, phases, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record::linkage(row)?);
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
            .push((record::word(&row.get::<_, String>(0)?)?, count));
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
    let mut overdue = db.prepare_cached(
        "SELECT next_due FROM mcp_action_tasks INDEXED BY due_by_registration \
         WHERE registration_id = ?1 AND next_due IS NOT NULL AND next_due <= ?2 \
         AND (lease_until IS NULL OR lease_until <= ?2) ORDER BY next_due LIMIT 1",
    )?;
    for registration in claim::registrations_with_work(db)? {
        let longest: Option<i64> = overdue
            .query_row(params![registration.as_str(), now.unix_ms()], |row| {
                row.get(0)
            })
            .optional()?;
        let lag = longest.map_or(Duration::ZERO, |due| now.since(Moment::from_unix_ms(due)));
        census.due_lag = census.due_lag.max(lag.min(HORIZON));
    }
    Ok(census)
}

/// The ledger's run.
pub(super) fn run(db: &Connection, run: &str) -> Result<Option<RunState>, StoreError> {
    let state: Option<String> = db
        .prepare_cached("SELECT state FROM runs WHERE run_id = ?1")?
        .query_row([run], |row| row.get(0))
        .optional()?;
    Ok(state.as_deref().map(record::run_state))
}

/// Copies the outcome of an action behind its row.
pub(super) fn add_outcome(
    db: &Connection,
    action: &str,
    row: &mut RawRow,
) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached(&OUTCOME_OF)?;
    let mut rows = statement.query([action])?;
    if let Some(outcome) = rows.next()? {
        row.extend(outcome)?;
    }
    Ok(())
}

static OUTCOME_OF: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {OUTCOME} FROM mcp_action_outcomes AS o WHERE action_id = ?1")
});

/// The answers of the host that were not sent yet, by key.
pub(super) fn answers(db: &Connection, action: &str) -> Result<Vec<(String, String)>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT input_key, answer FROM mcp_input_answers WHERE action_id = ?1 AND sent = 0",
    )?;
    let answers = statement.query_map([action], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(answers.collect::<Result<_, _>>()?)
}
