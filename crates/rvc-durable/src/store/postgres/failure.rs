use std::error::Error as _;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// Why an attempt at an operation ended.
#[derive(Debug)]
pub(super) enum Failure {
    /// The engine or the connection failed.
    Engine(tokio_postgres::Error),
    /// The store refuses; another attempt would not help.
    Refused(StoreError),
    /// Another process was quicker; look again.
    Raced,
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Engine(error),
            other => Self::Refused(StoreError::Unreachable {
                detail: other.to_string(),
            }),
        }
    }
}

/// What an attempt that failed leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aftermath {
    /// Another attempt may succeed at once.
    pub(super) repeat: bool,
    /// The connection is good for further use.
    pub(super) keep: bool,
}

impl Failure {
    pub(super) fn aftermath(&self) -> Aftermath {
        let (repeat, keep) = match self {
            Self::Raced => (true, true),
            Self::Refused(error) => (matches!(error, StoreError::Unreachable { .. }), true),
            Self::Engine(error) => match error.code() {
                // The connection itself.
                None => (true, false),
                Some(code) if is_away(code) => (true, false),
                // A server that was promoted or demoted, and statements prepared before the
                // tables changed: another connection sees better.
                Some(code)
                    if *code == SqlState::READ_ONLY_SQL_TRANSACTION
                        || *code == SqlState::FEATURE_NOT_SUPPORTED
                        || *code == SqlState::INVALID_SQL_STATEMENT_NAME =>
                {
                    (true, false)
                }
                Some(code)
                    if *code == SqlState::T_R_SERIALIZATION_FAILURE
                        || *code == SqlState::T_R_DEADLOCK_DETECTED
                        || *code == SqlState::LOCK_NOT_AVAILABLE =>
                {
                    (true, true)
                }
                Some(_) => (false, true),
            },
        };
        Aftermath { repeat, keep }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let error = match failure {
            Failure::Refused(error) => return error,
            Failure::Raced => {
                return Self::Locked {
                    detail: "others changed the same row again and again".to_owned(),
                };
            }
            Failure::Engine(error) => error,
        };
        // The server's own words, which name the constraint; an error of the connection hides its cause.
        let detail = match (error.as_db_error(), error.source()) {
            (Some(said), _) => said.message().to_owned(),
            (None, Some(cause)) => format!("{error}: {cause}"),
            (None, None) => error.to_string(),
        };
        let Some(code) = error.code() else {
            return Self::Unreachable { detail };
        };
        if is_away(code) {
            return Self::Unreachable { detail };
        }
        if *code == SqlState::DISK_FULL {
            return Self::Full { detail };
        }
        if *code == SqlState::READ_ONLY_SQL_TRANSACTION || *code == SqlState::INSUFFICIENT_PRIVILEGE
        {
            return Self::ReadOnly { detail };
        }
        // By class: the first two letters of five.
        match (code.code(), code.code().get(..2).unwrap_or_default()) {
            // A lock took too long, or someone is always quicker; a statement took too long.
            ("55P03", _) | (_, "40") => Self::Locked { detail },
            ("57014", _) => Self::Unreachable { detail },
            // What is refused today is refused tomorrow.
            (_, "22" | "23" | "54") => Self::Constraint { detail },
            (_, "28" | "3D" | "3F") => Self::Open { detail },
            ("XX001" | "XX002", _) => Self::Corrupt { detail },
            _ => Self::Engine { detail },
        }
    }
}

/// The server is away, on its way out or on its way in, or takes no more connections.
fn is_away(code: &SqlState) -> bool {
    [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::DATABASE_DROPPED,
        SqlState::IDLE_SESSION_TIMEOUT,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::TOO_MANY_CONNECTIONS,
    ]
    .contains(code)
        || code.code().starts_with("08")
}

/// The index that refuses a remote task which is linked to another action.
pub(super) const ONE_ACTION_PER_REMOTE_TASK: &str = "one_action_per_remote_task";
