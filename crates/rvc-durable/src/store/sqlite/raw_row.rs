use std::borrow::Cow;
use std::ops::Range;

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::phase::Phase;
use crate::store::StoreError;
use crate::store::record::{self, Columns};

/// The columns of a row, copied as they are; those after the last one are null.
pub(super) struct RawRow {
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

impl RawRow {
    /// Copies the first columns of a row.
    pub(super) fn copy(row: &Row<'_>, columns: usize) -> Result<Self, StoreError> {
        let mut copy = Self {
            columns: Vec::with_capacity(columns),
            texts: String::with_capacity(TEXTS),
        };
        copy.append(row, columns)?;
        Ok(copy)
    }

    /// Copies the columns of another row behind these.
    pub(super) fn extend(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        self.append(row, row.as_ref().column_count())
    }

    fn append(&mut self, row: &Row<'_>, columns: usize) -> Result<(), StoreError> {
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

    pub(super) fn action(&self) -> Result<Cow<'_, str>, StoreError> {
        record::text(self, 0)
    }

    pub(super) fn run(&self) -> Result<Cow<'_, str>, StoreError> {
        record::text(self, 1)
    }

    pub(super) fn phase(&self) -> Result<Phase, StoreError> {
        record::word(&record::text(self, 14)?)
    }

    /// Whether the server asks for input.
    pub(super) fn asks(&self) -> Result<bool, StoreError> {
        Ok(self.text(31)?.is_some())
    }
}

/// What the texts of most rows fit in, in bytes.
const TEXTS: usize = 512;

impl Columns for RawRow {
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
