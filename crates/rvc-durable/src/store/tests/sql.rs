//! A database past the store: by plain SQL.

#[cfg(feature = "postgres")]
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode};
#[cfg(feature = "postgres")]
use tokio_postgres::error::SqlState;

#[cfg(feature = "postgres")]
use super::database::{Database, connect, elsewhere};
use crate::store::sqlite;

/// An empty database of the engine under test.
pub(super) enum Sql {
    Sqlite(Connection),
    #[cfg(feature = "postgres")]
    Postgres {
        client: Arc<tokio_postgres::Client>,
        _database: Database,
    },
}

/// Why a statement was refused.
#[derive(Debug, PartialEq)]
pub(super) enum Refused {
    /// By a constraint or a trigger.
    Invariant,
    /// For another reason.
    Otherwise(String),
}

impl Sql {
    pub(super) fn new() -> Self {
        #[cfg(feature = "postgres")]
        if let Some(database) = Database::where_there_is_a_cluster() {
            let url = database.url();
            let client = elsewhere(async move { connect(&url).await });
            return Self::Postgres {
                client: Arc::new(client),
                _database: database,
            };
        }
        let mut db = Connection::open_in_memory().unwrap();
        sqlite::prepare(&mut db).unwrap();
        Self::Sqlite(db)
    }

    /// A way to change what an engine only does in its own dialect.
    pub(super) fn dialect(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => {
                "REPLACE INTO mcp_action_outcomes \
                 VALUES ('done', 'failed', 'Y', 'y', NULL, NULL, 2)"
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => "TRUNCATE mcp_action_outcomes",
        }
    }

    pub(super) fn execute(&self, sql: &str) -> Result<(), Refused> {
        match self {
            Self::Sqlite(db) => {
                db.execute_batch(sql)
                    .map_err(|error| match error.sqlite_error_code() {
                        Some(ErrorCode::ConstraintViolation) => Refused::Invariant,
                        _ => Refused::Otherwise(error.to_string()),
                    })
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { client, .. } => {
                let (client, sql) = (client.clone(), sql.to_owned());
                let answer = elsewhere(async move { client.batch_execute(&sql).await });
                answer.map_err(|error| match error.code().map(SqlState::code) {
                    // Integrity constraints, and what triggers raise.
                    Some(code) if code.starts_with("23") || code == "P0001" => Refused::Invariant,
                    _ => Refused::Otherwise(format!("{error:?}")),
                })
            }
        }
    }
}
