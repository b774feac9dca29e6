//! What a claim takes out of the engine, as it is.
//!
//! The engine's thread has the writes of everybody to do: to make rows of it is left to the
//! thread of whoever asked.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use futures_util::future::BoxFuture;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use tokio::sync::mpsc;

use crate::linkage::{Fence, Linkage};
use crate::moment::Moment;
use crate::name::RegistrationId;
use crate::plan::RunState;
use crate::registration::Registration;
use crate::store::record::{self, Columns};
use crate::store::{Claim, Claimed, Claims, LeaseOwner, StoreError, Surroundings};

/// Reads what is taken while its commit is under way, and gives it back when that is done: the
/// last of it, where it was taken more than once.
pub(super) async fn read(
    mut early: mpsc::UnboundedReceiver<Taken>,
    mut committed: BoxFuture<'_, Result<(), StoreError>>,
) -> Result<Claims, StoreError> {
    let mut claims = None;
    loop {
        tokio::select! {
            biased;
            Some(taken) = early.recv() => claims = Some(taken.read()),
            committed = &mut committed => break committed?,
        }
    }
    // Between the two looks both may have come.
    while let Ok(taken) = early.try_recv() {
        claims = Some(taken.read());
    }
    claims.ok_or(StoreError::Closed)
}

/// The rows of a claim, and what they have in common, read once.
pub(super) struct Taken {
    pub(super) rows: Vec<TakenRow>,
    pub(super) owner: LeaseOwner,
    pub(super) until: Moment,
    pub(super) runs: HashMap<String, Option<RunState>>,
    pub(super) registrations: HashMap<RegistrationId, Result<Option<Registration>, StoreError>>,
    pub(super) now: Moment,
    pub(super) is_full: bool,
    pub(super) next_due: Option<Moment>,
}

/// A row that was leased.
pub(super) struct TakenRow {
    pub(super) record: Record,
    /// The fence of the lease, and the wakes, as their columns have them.
    pub(super) fence: i64,
    pub(super) wakes: i64,
    /// Whether an earlier holder never wrote it back.
    pub(super) recovered: bool,
    /// Answers of the host that were not sent yet, by key.
    pub(super) answers: Vec<(String, String)>,
}

impl Taken {
    /// Reads the rows. One that cannot be read keeps its lease, and is not in the way of the
    /// others.
    fn read(mut self) -> Claims {
        let taken = std::mem::take(&mut self.rows);
        let mut rows = Vec::with_capacity(taken.len());
        for mut row in taken {
            let answers = std::mem::take(&mut row.answers);
            match self.claimed(&row, answers) {
                Ok(claimed) => rows.push(claimed),
                Err(error) => {
                    let action = record::text(&row.record, 0).unwrap_or_default();
                    record::unreadable(&action, &error);
                }
            }
        }
        Claims {
            rows,
            now: self.now,
            is_full: self.is_full,
            next_due: self.next_due,
        }
    }

    fn claimed(
        &self,
        taken: &TakenRow,
        answers: Vec<(String, String)>,
    ) -> Result<Claimed, StoreError> {
        let row = record::linkage(&taken.record)?;
        Ok(Claimed {
            claim: Claim {
                action: row.action.clone(),
                owner: self.owner,
                fence: Fence::new(unsigned(taken.fence)),
                wakes: unsigned(taken.wakes),
            },
            recovered: taken.recovered,
            until: self.until,
            surroundings: self.surroundings(&row, answers)?,
            row,
        })
    }

    /// What planning needs besides a row.
    fn surroundings(
        &self,
        row: &Linkage,
        answers: Vec<(String, String)>,
    ) -> Result<Surroundings, StoreError> {
        let registration = self.registrations.get(&row.registration);
        Ok(Surroundings {
            run: self.runs.get(row.run.as_str()).copied().flatten(),
            registration: registration.cloned().transpose()?.flatten(),
            answers: record::answers(answers)?,
        })
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The columns of a row, copied; those after the last one are null.
pub(super) struct Record {
    columns: Vec<Column>,
    /// Every text of it, one behind the other.
    texts: String,
}

enum Column {
    Null,
    Number(i64),
    Text(Range<usize>),
    /// Damaged: no value of ours.
    Unreadable,
}

impl Record {
    /// Copies the first columns of a row.
    pub(super) fn take(row: &Row<'_>, columns: usize) -> Result<Self, StoreError> {
        let mut record = Self {
            columns: Vec::with_capacity(columns),
            texts: String::with_capacity(TEXTS),
        };
        record.extend(row, columns)?;
        Ok(record)
    }

    /// Copies the first columns of another row behind these.
    pub(super) fn extend(&mut self, row: &Row<'_>, columns: usize) -> Result<(), StoreError> {
        for column in 0..columns {
            let value = row.get_ref(column)?;
            self.columns.push(match value {
                ValueRef::Null => Column::Null,
                ValueRef::Integer(number) => Column::Number(number),
                value => match value.as_str() {
                    Err(_) => Column::Unreadable,
                    Ok(text) => {
                        let start = self.texts.len();
                        self.texts.push_str(text);
                        Column::Text(start..self.texts.len())
                    }
                },
            });
        }
        Ok(())
    }
}

/// What the texts of most rows fit in, in bytes.
const TEXTS: usize = 512;

impl Columns for Record {
    fn text(&self, column: usize) -> Result<Option<Cow<'_, str>>, StoreError> {
        match self.columns.get(column) {
            None | Some(Column::Null) => Ok(None),
            Some(Column::Text(range)) => Ok(Some(Cow::Borrowed(&self.texts[range.clone()]))),
            Some(Column::Number(_) | Column::Unreadable) => Err(damaged(column)),
        }
    }

    fn number(&self, column: usize) -> Result<Option<i64>, StoreError> {
        match self.columns.get(column) {
            None | Some(Column::Null) => Ok(None),
            Some(Column::Number(number)) => Ok(Some(*number)),
            Some(Column::Text(_) | Column::Unreadable) => Err(damaged(column)),
        }
    }

    fn flag(&self, column: usize) -> Result<bool, StoreError> {
        match self.number(column)? {
            Some(number) => Ok(number != 0),
            None => Err(damaged(column)),
        }
    }
}

fn damaged(column: usize) -> StoreError {
    StoreError::Corrupt {
        detail: format!("column {column} has no value of its type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_comes_together_with_its_commit_is_read() {
        for times in [1, 2] {
            let (sender, early) = mpsc::unbounded_channel();
            // The rows were looked for before the commit is: here it brings them.
            let committed = Box::pin(async move {
                for time in 1..=times {
                    let _ = sender.send(nothing(time));
                }
                Ok(())
            });

            let claims = read(early, committed).await.expect("it was committed");

            assert_eq!(claims.now, Moment::from_unix_ms(times));
        }
    }

    #[tokio::test]
    async fn what_is_not_committed_is_not_given_back() {
        let (sender, early) = mpsc::unbounded_channel();
        let _ = sender.send(nothing(1));
        let refused = StoreError::Full {
            detail: String::new(),
        };
        let committed = Box::pin(std::future::ready(Err(refused.clone())));

        assert_eq!(read(early, committed).await, Err(refused));
    }

    fn nothing(ms: i64) -> Taken {
        Taken {
            rows: Vec::new(),
            owner: LeaseOwner::draw(),
            until: Moment::from_unix_ms(0),
            runs: HashMap::new(),
            registrations: HashMap::new(),
            now: Moment::from_unix_ms(ms),
            is_full: false,
            next_due: None,
        }
    }
}
