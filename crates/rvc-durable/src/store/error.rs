/// Why the store did not do something. Nothing was changed, but for `Unreachable`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else holds the database, longer than we wait.
    #[error("the database is locked by another process ({detail})")]
    Locked {
        /// The engine's words.
        detail: String,
    },
    /// The server cannot be reached, or did not answer in time. When the operation was a change,
    /// it may have been made; repeating it is safe.
    #[error("the database cannot be reached ({detail})")]
    Unreachable {
        /// What was tried, and what came of it.
        detail: String,
    },
    /// No room is left for it.
    #[error("the disk is full ({detail})")]
    Full {
        /// The engine's words.
        detail: String,
    },
    /// It may be read only.
    #[error("the database cannot be written to ({detail})")]
    ReadOnly {
        /// The engine's words.
        detail: String,
    },
    /// It is damaged, or no database.
    #[error("the database is damaged, or no database; restore it from a backup ({detail})")]
    Corrupt {
        /// The engine's words.
        detail: String,
    },
    /// A newer program wrote it.
    #[error(
        "the database has schema {found}, this program knows up to {known}; use the newer program"
    )]
    NewerSchema {
        /// The schema of the database.
        found: u32,
        /// The newest schema that is known here.
        known: u32,
    },
    /// It belongs to another program.
    #[error("the database belongs to another program")]
    Foreign,
    /// A constraint refused the write.
    #[error("a constraint of the database refused the write ({detail})")]
    Constraint {
        /// The engine's words.
        detail: String,
    },
    /// It cannot be opened: no such file or database, or no right to it.
    #[error("the database cannot be opened ({detail})")]
    Open {
        /// The engine's words.
        detail: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Anything else the engine said.
    #[error("the database failed ({detail})")]
    Engine {
        /// The engine's words.
        detail: String,
    },
}

impl StoreError {
    /// Whether the same operation may succeed later, unaided.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        // A login may be refused for the length of a failover.
        matches!(
            self,
            Self::Locked { .. }
                | Self::Unreachable { .. }
                | Self::Full { .. }
                | Self::ReadOnly { .. }
                | Self::Open { .. }
                | Self::Engine { .. }
        )
    }
}
