use rusqlite::{Connection, Row, params};

use super::rows::word;
use crate::name::{OwnerId, RegistrationId};
use crate::registration::Registration;
use crate::store::StoreError;

const COLUMNS: &str = "registration_id, owner_id, endpoint, transport, enabled";

pub(super) fn put(db: &Connection, registration: &Registration) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO registrations ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT DO UPDATE SET owner_id = ?2, endpoint = ?3, transport = ?4, enabled = ?5"
    );
    db.prepare_cached(&sql)?.execute(params![
        registration.id.as_str(),
        registration.owner.as_str(),
        registration.endpoint.as_str(),
        registration.transport.as_str(),
        registration.enabled
    ])?;
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
    let sql = format!("SELECT {COLUMNS} FROM registrations WHERE registration_id = ?1");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?.map(read).transpose()
}

pub(super) fn list(
    db: &Connection,
    owner: Option<&OwnerId>,
) -> Result<Vec<Registration>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM registrations WHERE ?1 IS NULL OR owner_id = ?1 \
         ORDER BY registration_id"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([owner.map(OwnerId::as_str)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<Registration, StoreError> {
    Ok(Registration {
        id: word(&row.get::<_, String>(0)?)?,
        owner: word(&row.get::<_, String>(1)?)?,
        endpoint: word(&row.get::<_, String>(2)?)?,
        transport: word(&row.get::<_, String>(3)?)?,
        enabled: row.get(4)?,
    })
}
