use rusqlite::{Connection, params};

use crate::name::{OwnerId, RegistrationId};
use crate::registration::Registration;
use crate::store::StoreError;
use crate::store::record::{self, REGISTRATION};

pub(super) fn put(db: &Connection, registration: &Registration) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO registrations ({REGISTRATION}) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT DO UPDATE SET owner_id = ?2, endpoint = ?3, transport = ?4"
    );
    db.prepare_cached(&sql)?
        .execute(record::registration_values(registration))?;
    Ok(())
}

pub(super) fn enable(
    db: &Connection,
    id: &RegistrationId,
    enabled: bool,
) -> Result<bool, StoreError> {
    let changed = db
        .prepare_cached("UPDATE registrations SET enabled = ?2 WHERE registration_id = ?1")?
        .execute(params![id.as_str(), enabled])?;
    Ok(changed == 1)
}

pub(super) fn remove(db: &Connection, id: &RegistrationId) -> Result<bool, StoreError> {
    let removed = db
        .prepare_cached("DELETE FROM registrations WHERE registration_id = ?1")?
        .execute([id.as_str()])?;
    Ok(removed == 1)
}

pub(super) fn get(
    db: &Connection,
    id: &RegistrationId,
) -> Result<Option<Registration>, StoreError> {
    let sql = format!("SELECT {REGISTRATION} FROM registrations WHERE registration_id = ?1");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?
        .map(|row| record::registration(row, 0))
        .transpose()
}

pub(super) fn list(
    db: &Connection,
    owner: Option<&OwnerId>,
) -> Result<Vec<Registration>, StoreError> {
    let sql = format!(
        "SELECT {REGISTRATION} FROM registrations WHERE ?1 IS NULL OR owner_id = ?1 \
         ORDER BY registration_id"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([owner.map(OwnerId::as_str)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record::registration(row, 0)?);
    }
    Ok(found)
}
