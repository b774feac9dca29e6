use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;

use super::database::Session;
use super::failure::Failure;
use crate::name::{OwnerId, RegistrationId};
use crate::registration::Registration;
use crate::store::record::{self, REGISTRATION, Value};

pub(super) fn put<'a>(
    session: &'a Session<'a>,
    registration: &'a Registration,
) -> BoxFuture<'a, Result<(), Failure>> {
    Box::pin(async move {
        let sql = format!(
            "INSERT INTO registrations ({REGISTRATION}) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (registration_id) DO UPDATE \
             SET owner_id = $2, endpoint = $3, transport = $4"
        );
        let values = record::registration_values(registration);
        session.change(&sql, &values).await?;
        Ok(())
    })
}

pub(super) fn enable<'a>(
    session: &'a Session<'a>,
    (id, enabled): &'a (RegistrationId, bool),
) -> BoxFuture<'a, Result<bool, Failure>> {
    Box::pin(async move {
        let sql = "UPDATE registrations SET enabled = $2 WHERE registration_id = $1";
        let values = [Value::text(id.as_str()), Value::Flag(*enabled)];
        Ok(session.change(sql, &values).await? == 1)
    })
}

/// A registration to remove, and whether an attempt found it.
pub(super) struct Removal {
    id: RegistrationId,
    found: AtomicBool,
}

impl Removal {
    pub(super) fn new(id: RegistrationId) -> Self {
        Self {
            id,
            found: AtomicBool::new(false),
        }
    }
}

/// In a transaction, so that what an attempt found is known when its commit is not.
pub(super) fn remove<'a>(
    session: &'a Session<'a>,
    removal: &'a Removal,
) -> BoxFuture<'a, Result<bool, Failure>> {
    Box::pin(async move {
        let sql = "DELETE FROM registrations WHERE registration_id = $1";
        let removed = session
            .change(sql, &[Value::text(removal.id.as_str())])
            .await?
            == 1;
        // Found before and gone now: that was this removal, or as good as this.
        Ok(removal.found.fetch_or(removed, Ordering::Relaxed) || removed)
    })
}

pub(super) fn list<'a>(
    session: &'a Session<'a>,
    (owner,): &'a (Option<OwnerId>,),
) -> BoxFuture<'a, Result<Vec<Registration>, Failure>> {
    Box::pin(async move {
        let sql = format!(
            "SELECT {REGISTRATION} FROM registrations WHERE $1::text IS NULL OR owner_id = $1 \
             ORDER BY registration_id"
        );
        let owner = owner
            .as_ref()
            .map_or(Value::Text(None), |owner| Value::text(owner.as_str()));
        let rows = session.rows(&sql, &[owner]).await?;
        let read = rows.iter().map(|row| record::registration(row, 0));
        Ok(read.collect::<Result<_, _>>()?)
    })
}
