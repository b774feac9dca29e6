use std::borrow::Cow;
use std::time::Duration;

use futures_util::future::{BoxFuture, join};

use super::database::Session;
use super::failure::Failure;
use super::values::get;
use crate::linkage::Linkage;
use crate::moment::Moment;
use crate::name::ActionId;
use crate::phase::Phase;
use crate::plan::HORIZON;
use crate::store::record::{self, COLUMNS, Columns as _, OUTCOME, SOURCE, Value};
use crate::store::{Census, Filter, StoreError};

pub(super) fn row<'a>(
    session: &'a Session<'a>,
    action: &'a ActionId,
) -> BoxFuture<'a, Result<Option<Linkage>, Failure>> {
    Box::pin(async move {
        let sql = format!("SELECT {COLUMNS}, {OUTCOME} FROM {SOURCE} WHERE t.action_id = $1");
        let row = session.row(&sql, &[Value::text(action.as_str())]).await?;
        Ok(row.as_ref().map(record::linkage).transpose()?)
    })
}

/// The rows of several actions, whose ids are spelled as they are stored.
pub(super) async fn all(
    session: &Session<'_>,
    actions: &[Cow<'_, str>],
) -> Result<Vec<Linkage>, Failure> {
    let sql = format!(
        "SELECT {COLUMNS}, {OUTCOME} FROM {SOURCE} WHERE t.action_id = ANY ($1::text[]) ORDER BY t.action_id"
    );
    let rows = session.query(&sql, &[&actions]).await?;
    Ok(rows.iter().map(record::linkage).collect::<Result<_, _>>()?)
}

pub(super) fn list<'a>(
    session: &'a Session<'a>,
    filter: &'a Filter,
) -> BoxFuture<'a, Result<Vec<Linkage>, Failure>> {
    Box::pin(async move {
        let phases: Vec<&str> = filter.phases.iter().map(|phase| phase.as_str()).collect();
        let phases = phases.join(",");
        let mut values = vec![Value::text(&phases), Value::Number(None)];
        if filter.limit > 0 {
            values[1] = Value::count(filter.limit);
        }
        // A condition only where it is one, so that the index of runs can be used.
        let mut of_run = "";
        if let Some(run) = &filter.run {
            values.push(Value::text(run.as_str()));
            of_run = "AND t.run_id = $3";
        }
        let sql = format!(
            "SELECT {COLUMNS}, {OUTCOME} FROM {SOURCE} \
             WHERE ($1::text = '' OR t.phase = ANY (string_to_array($1, ','))) {of_run} \
             ORDER BY t.created_at DESC, t.action_id LIMIT $2"
        );
        let rows = session.rows(&sql, &values).await?;
        Ok(rows.iter().map(record::linkage).collect::<Result<_, _>>()?)
    })
}

pub(super) fn now<'a>(
    session: &'a Session<'a>,
    _: &'a (),
) -> BoxFuture<'a, Result<Moment, Failure>> {
    Box::pin(session.now())
}

pub(super) fn census<'a>(
    session: &'a Session<'a>,
    _: &'a (),
) -> BoxFuture<'a, Result<Census, Failure>> {
    Box::pin(async move {
        let at = [session.at()];
        let (counts, rest) = join(
            session.rows(
                "SELECT phase, count(*) FROM mcp_action_tasks GROUP BY phase",
                &[],
            ),
            // The longest overdue of each registration: a walk from one to the next.
            session.rows(
                "WITH RECURSIVE time (now) AS MATERIALIZED (SELECT store_now($1)), \
                 walk (id) AS ( \
                     (SELECT registration_id FROM mcp_action_tasks \
                         WHERE next_due IS NOT NULL ORDER BY registration_id LIMIT 1) \
                     UNION ALL \
                     SELECT next.* FROM walk, LATERAL ( \
                         SELECT registration_id FROM mcp_action_tasks \
                         WHERE next_due IS NOT NULL AND registration_id > walk.id \
                         ORDER BY registration_id LIMIT 1) AS next) \
                 SELECT (SELECT now FROM time), (SELECT min(( \
                         SELECT next_due FROM mcp_action_tasks \
                         WHERE registration_id = walk.id \
                             AND next_due <= (SELECT now FROM time) \
                             AND (lease_until IS NULL \
                                 OR lease_until <= (SELECT now FROM time)) \
                         ORDER BY next_due LIMIT 1)) FROM walk), \
                     (SELECT count(*) FROM mcp_action_tasks \
                         WHERE clean_up_open AND cancel_acknowledged_at IS NULL), \
                     (SELECT count(*) FROM mcp_action_tasks \
                         WHERE clean_up_open AND phase <> 'accepted')",
                &at,
            ),
        )
        .await;
        let (counts, rest) = (counts?, rest?);
        let mut census = Census::default();
        for row in &counts {
            let phase: Phase = record::word(&record::text(row, 0)?)?;
            let count = number(row, 1)?;
            if !phase.is_final() {
                census.open += count;
            }
            census.phases.push((phase, count));
        }
        census
            .phases
            .sort_by_key(|(phase, _)| Phase::ALL.iter().position(|it| it == phase));
        let Some(rest) = rest.first() else {
            return Ok(census);
        };
        let now = Moment::from_unix_ms(get(rest, 0)?);
        let earliest = rest.number(1)?.map(Moment::from_unix_ms);
        census.due_lag = earliest.map_or(Duration::ZERO, |due| now.since(due).min(HORIZON));
        census.cancels_unacknowledged = number(rest, 2)?;
        // By a constraint, what is not final is due some day, and so is an open clean-up.
        census.open += number(rest, 3)?;
        Ok(census)
    })
}

fn number(row: &tokio_postgres::Row, column: usize) -> Result<u64, StoreError> {
    Ok(u64::try_from(get::<i64>(row, column)?).unwrap_or(0))
}
