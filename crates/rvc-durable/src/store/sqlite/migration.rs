use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};

use crate::store::StoreError;

/// Schemas by number, from 1. Numbered, embedded, never edited: a change is a new one.
const SCHEMAS: [&str; 1] = [include_str!("schema_1.sql")];

/// `rvc1`, so that the file of another program is not taken for ours.
const APPLICATION: i32 = 0x7276_6331;

/// Brings a connection and its database to where the store wants them.
pub(in crate::store) fn prepare(db: &mut Connection) -> Result<(), StoreError> {
    // Refuse before anything is written: not even the journal mode changes. In one transaction,
    // or a file that another process is just making its own would look like neither's.
    let found = version(&*db.transaction()?)?;
    // In memory there is no WAL, and the answer says so.
    db.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
    db.pragma_update(None, "synchronous", "full")?;
    // Else the planner prepares some statements anew for every value that is bound, which takes
    // several times as long as to execute them.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "recursive_triggers", true)?;
    if found < known() {
        migrate(db)?;
    }
    Ok(())
}

fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    // The lock: whoever waited for it finds the work done.
    let transaction = db.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let found = version(&transaction)?;
    for (number, schema) in (1..=known()).zip(SCHEMAS) {
        if number > found {
            transaction.execute_batch(schema)?;
            transaction.pragma_update(None, "user_version", number)?;
        }
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.commit()?;
    Ok(())
}

fn version(db: &Connection) -> Result<u32, StoreError> {
    let pragma = |name| db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i32>(0));
    let application = pragma("application_id")?;
    let version = u32::try_from(pragma("user_version")?).unwrap_or(u32::MAX);
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION && (application != 0 || version != 0 || tables != 0) {
        return Err(StoreError::Foreign);
    }
    if version > known() {
        return Err(StoreError::NewerSchema {
            found: version,
            known: known(),
        });
    }
    Ok(version)
}

fn known() -> u32 {
    u32::try_from(SCHEMAS.len()).expect("a handful of schemas")
}
