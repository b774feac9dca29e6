use std::time::Duration;

use rusqlite::{Connection, params};

use crate::moment::Moment;
use crate::plan::HORIZON;
use crate::store::record::ms;

/// Notes the time. Where it is well before what was noted last, the clock was set back since, and
/// no due time of before says when: everything is due, and no lease lasts longer than a new one
/// (Design rule 3).
pub(super) fn heed(db: &Connection, now: Moment, lease: Duration) -> Result<(), rusqlite::Error> {
    let noted: i64 = db
        .prepare_cached("SELECT noted FROM clock")?
        .query_row([], |row| row.get(0))?;
    let now_ms = now.unix_ms();
    let is_back = now_ms < noted.saturating_sub(ms(SET_BACK));
    if is_back {
        tracing::warn!(now_ms, noted, "the clock was set back: everything is due");
        // A step in hand still reckons by the clock of before: it is as if its row were woken.
        db.prepare_cached(
            "UPDATE mcp_action_tasks SET wakes = wakes + 1, next_due = min(next_due, ?1), \
             lease_until = CASE WHEN lease_until > ?2 THEN ?2 ELSE lease_until END \
             WHERE next_due IS NOT NULL AND (next_due > ?1 OR lease_until > ?1)",
        )?
        .execute(params![now_ms, now.after(lease.min(HORIZON)).unix_ms()])?;
    }
    if is_back || now_ms > noted.saturating_add(ms(NOTED_EVERY)) {
        db.prepare_cached("UPDATE clock SET noted = ?1")?
            .execute(params![now_ms])?;
    }
    Ok(())
}

/// A clock that is corrected by less costs less than a poll of everything.
const SET_BACK: Duration = Duration::from_secs(5);

/// Each note is a write.
const NOTED_EVERY: Duration = Duration::from_secs(10);
