use std::borrow::Cow;
use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::store::StoreError;
use crate::store::record::{Columns, Value};

impl Columns for Row {
    fn text(&self, column: usize) -> Result<Option<Cow<'_, str>>, StoreError> {
        Ok(get::<Option<&str>>(self, column)?.map(revealed))
    }

    fn number(&self, column: usize) -> Result<Option<i64>, StoreError> {
        get(self, column)
    }

    fn flag(&self, column: usize) -> Result<bool, StoreError> {
        get(self, column)
    }
}

/// Reads a column; another type than expected is damage.
pub(super) fn get<'a, T>(row: &'a Row, column: usize) -> Result<T, StoreError>
where
    T: tokio_postgres::types::FromSql<'a>,
{
    row.try_get(column).map_err(|error| StoreError::Corrupt {
        detail: error.to_string(),
    })
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Text(text) => text.as_deref().map(hidden).to_sql(ty, out),
            // An absent value has no type.
            Self::Number(None) => Ok(IsNull::Yes),
            Self::Number(Some(number)) => number.to_sql(ty, out),
            Self::Flag(flag) => flag.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // The SQL beside the values names every type.
        true
    }

    to_sql_checked!();
}

/// A text as the engine takes it, which refuses NUL. Servers may send one, in a task's id say,
/// and it has to come back as it was.
pub(super) fn hidden(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', MARK]) {
        Cow::Owned(text.replace(MARK, MARKED_MARK).replace('\0', MARKED_NUL))
    } else {
        Cow::Borrowed(text)
    }
}

/// The inverse of [`hidden`].
pub(super) fn revealed(text: &str) -> Cow<'_, str> {
    if text.contains(MARK) {
        Cow::Owned(text.replace(MARKED_NUL, "\0").replace(MARKED_MARK, "\u{1}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Stands before what cannot be stored as it is, itself included.
const MARK: char = '\u{1}';
const MARKED_NUL: &str = "\u{1}0";
const MARKED_MARK: &str = "\u{1}1";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_survives_and_none_is_stored_with_a_nul(text in "[\u{0}\u{1}01a-c]{0,12}") {
            let stored = hidden(&text).into_owned();

            prop_assert!(!stored.contains('\0'));
            prop_assert_eq!(revealed(&stored), text);
        }
    }
}
