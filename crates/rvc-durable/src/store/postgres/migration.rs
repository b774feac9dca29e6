use futures_util::future::BoxFuture;

use super::database::Session;
use super::failure::Failure;
use super::options::Tables;
use crate::store::StoreError;
use crate::store::record::{self, Value};

/// Schemas by number, from 1. Numbered, embedded, never edited: a change is a new one.
const SCHEMAS: [&str; 1] = [include_str!("schema_1.sql")];

/// Names that another program might use as well.
const TABLES: &str = "schema_version,clock,runs,actions,registrations,mcp_action_tasks,\
    mcp_action_outcomes,mcp_input_answers";

/// Whether nothing is to be done. Neither a right to create nor a lock is needed to see that.
///
/// Anything else is believed under the lock only: halfway through another's migration, what is
/// known of names and of tables does not agree.
pub(super) fn is_current<'a>(
    session: &'a Session<'a>,
    _: &'a (),
) -> BoxFuture<'a, Result<bool, Failure>> {
    Box::pin(async move {
        match version(session).await {
            Ok(found) => Ok(found == known()),
            Err(Failure::Refused(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    })
}

/// Brings the tables to where the store wants them. One process does it, the others wait.
pub(super) fn migrate<'a>(
    session: &'a Session<'a>,
    tables: &'a Tables,
) -> BoxFuture<'a, Result<(), Failure>> {
    Box::pin(async move {
        // The first in its transaction: a session hears of new tables when it locks one that it
        // has not locked in the same transaction.
        session
            .batch(
                "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0",
            )
            .await?;
        // As long as another's migration takes; a table that somebody uses is waited for as
        // briefly as ever, or all would queue behind.
        let limit = session
            .rows(
                "SELECT current_setting('lock_timeout'), set_config('lock_timeout', '0', true)",
                &[],
            )
            .await?;
        session
            .rows(
                "SELECT pg_advisory_xact_lock(hashtextextended(current_schema(), $1))",
                &[Value::count(LOCK)],
            )
            .await?;
        if let Some(limit) = limit.first() {
            let sql = "SELECT set_config('lock_timeout', $1, true)";
            session
                .rows(sql, &[Value::text(&record::text(limit, 0)?)])
                .await?;
        }
        // Whoever waited finds the work done.
        let found = version(session).await?;
        if found == 0 && *tables == Tables::Expect {
            return Err(StoreError::Open {
                detail: "it has no tables of this program".to_owned(),
            }
            .into());
        }
        for (number, schema) in (1..=known()).zip(SCHEMAS) {
            if number > found {
                session.batch(schema).await?;
            }
        }
        session
            .change(
                "INSERT INTO schema_version (application, version) VALUES ('rvc-durable', $1) \
                 ON CONFLICT (application) DO UPDATE SET version = $1",
                &[Value::count(known())],
            )
            .await?;
        Ok(())
    })
}

/// The schema that is there, zero where there is none.
async fn version(session: &Session<'_>) -> Result<u32, Failure> {
    let row = session
        .row(
            "SELECT current_schema() IS NOT NULL, to_regclass('schema_version') IS NOT NULL, \
             (SELECT count(*) = 2 FROM pg_attribute \
                 WHERE attrelid = to_regclass('schema_version') \
                 AND attname IN ('application', 'version')), \
             EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace \
                 WHERE n.nspname = current_schema() \
                 AND relname = ANY (string_to_array($1::text, ','))), \
             current_setting('server_encoding') = 'UTF8'",
            &[Value::text(TABLES)],
        )
        .await?;
    let row = row.ok_or(StoreError::Closed)?;
    if !row.try_get::<_, bool>(4)? {
        return Err(StoreError::Open {
            detail: "its encoding is not UTF8, so it cannot keep every text".into(),
        }
        .into());
    }
    let (place, numbered, ours, taken) = (
        row.try_get(0)?,
        row.try_get(1)?,
        row.try_get(2)?,
        row.try_get(3)?,
    );
    match (place, numbered, ours, taken) {
        (false, ..) => Err(StoreError::Open {
            detail: "no schema of the search path exists, so there is no place for tables".into(),
        }
        .into()),
        (true, true, true, _) => {
            let sql = "SELECT version::bigint FROM schema_version WHERE application::text = $1";
            let row = session.row(sql, &[Value::text("rvc-durable")]).await?;
            let found: i64 = row.ok_or(StoreError::Foreign)?.try_get(0)?;
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            if found > known() {
                let known = known();
                return Err(StoreError::NewerSchema { found, known }.into());
            }
            Ok(found)
        }
        (true, false, _, false) => Ok(0),
        _ => Err(StoreError::Foreign.into()),
    }
}

fn known() -> u32 {
    u32::try_from(SCHEMAS.len()).expect("a handful of schemas")
}

/// `rvc1`: the advisory lock of migrations, of each schema its own.
const LOCK: u32 = 0x7276_6331;
