use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use super::raw_claims::{RawClaimed, RawClaims};
use super::raw_row::RawRow;
use super::{clock, registrations, rows};
use crate::moment::Moment;
use crate::name::{ActionId, RegistrationId};
use crate::plan::{HORIZON, RunState};
use crate::registration::Registration;
use crate::store::record::{self, COLUMNS};
use crate::store::{Claim, ClaimRequest, Renewed, StoreError};

/// The free rows of one registration that are due, the longest overdue first.
///
/// A time further ahead than anything is ever set was written under a clock that has been set
/// back since: a second range of the same index.
///
/// The columns of a row after [`COLUMNS`] are its fence, its wakes and whether it was leased.
pub(super) static DUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {COLUMNS}, t.fence, t.wakes, t.lease_owner IS NOT NULL \
         FROM mcp_action_tasks AS t INDEXED BY due_by_registration \
         WHERE t.registration_id = ?1 AND t.next_due IS NOT NULL AND t.next_due BETWEEN ?2 AND ?3 \
         AND (t.lease_until IS NULL OR (t.lease_until <= ?4 OR t.lease_until > ?5) \
             AND t.action_id NOT IN (SELECT value FROM json_each(?7))) \
         ORDER BY t.next_due LIMIT ?6"
    )
});

pub(super) fn claim(
    db: &Connection,
    now: Moment,
    request: &ClaimRequest,
) -> Result<RawClaims, StoreError> {
    clock::heed(db, now, request.lease)?;
    let mut registrations = registrations_with_work(db)?;
    registrations.sort_by(|one, other| turn(request, one).cmp(&turn(request, other)));
    let mut leasing = Leasing::new(db, now, request)?;
    let mut taken = vec![0_u32; registrations.len()];
    let mut left = request.limit;
    // Fair shares first; what nobody else wants goes to whoever has more.
    for greedy in [false, true] {
        let mut waiting = u32::try_from(registrations.len()).unwrap_or(u32::MAX);
        for (registration, taken) in registrations.iter().zip(&mut taken) {
            if left == 0 {
                break;
            }
            let in_hand = request.in_hand.get(registration).copied().unwrap_or(0);
            let room = request
                .per_registration
                .saturating_sub(in_hand.saturating_add(*taken));
            let share = if greedy { left } else { left.div_ceil(waiting) };
            waiting = waiting.saturating_sub(1).max(1);
            let quota = room.min(share);
            if quota == 0 || (greedy && *taken == 0) {
                continue;
            }
            // What is leased now is not found again.
            let leased = leasing.lease_due(registration, quota)?;
            *taken += leased;
            left -= leased;
        }
    }
    let next_due = if left == 0 {
        None
    } else {
        next_due(db, now, &registrations)?
    };
    Ok(RawClaims {
        rows: leasing.rows,
        owner: request.owner,
        until: leasing.until,
        runs: leasing.runs,
        registrations: leasing.registrations,
        now,
        is_full: left == 0,
        next_due,
    })
}

/// Where a registration stands in the line for a share: those of which the owner has least in hand
/// come first, and of equals those behind the one that was served last.
fn turn<'a>(request: &ClaimRequest, id: &'a RegistrationId) -> (u32, bool, &'a str) {
    let in_hand = request.in_hand.get(id).copied().unwrap_or(0);
    let served = request.served.as_ref();
    let had_a_turn = served.is_some_and(|served| id.as_str() <= served.as_str());
    (in_hand, had_a_turn, id.as_str())
}

/// Walks the index from one registration to the next, without looking at their rows.
pub(super) fn registrations_with_work(db: &Connection) -> Result<Vec<RegistrationId>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT registration_id FROM mcp_action_tasks INDEXED BY due_by_registration \
         WHERE next_due IS NOT NULL AND registration_id > ?1 ORDER BY registration_id LIMIT 1",
    )?;
    let mut found = Vec::new();
    let mut last = String::new();
    while let Some(id) = statement
        .query_row([&last], |row| row.get::<_, String>(0))
        .optional()?
    {
        found.push(record::word(&id)?);
        last = id;
    }
    Ok(found)
}

/// The leasing of one claim.
struct Leasing<'a> {
    db: &'a Connection,
    due: CachedStatement<'a>,
    update: CachedStatement<'a>,
    /// The owner as its column has it.
    owner: String,
    /// What the owner has in hand, as JSON.
    mine: String,
    now: Moment,
    until: Moment,
    rows: Vec<RawClaimed>,
    runs: HashMap<String, Option<RunState>>,
    registrations: HashMap<RegistrationId, Option<Registration>>,
}

impl<'a> Leasing<'a> {
    fn new(db: &'a Connection, now: Moment, request: &ClaimRequest) -> Result<Self, StoreError> {
        let mine: Vec<_> = request.mine.iter().map(ActionId::as_str).collect();
        Ok(Self {
            db,
            due: db.prepare_cached(&DUE)?,
            update: db.prepare_cached(
                "UPDATE mcp_action_tasks SET lease_owner = ?2, lease_until = ?3, fence = ?4 \
                 WHERE action_id = ?1",
            )?,
            owner: request.owner.to_string(),
            mine: serde_json::to_string(&mine).expect("texts"),
            now,
            // Not over at once, or the claim would find the row again.
            until: now.after(request.lease.clamp(Duration::from_millis(1), HORIZON)),
            rows: Vec::new(),
            runs: HashMap::new(),
            registrations: HashMap::new(),
        })
    }

    /// Leases at most `quota` rows of a registration, and says how many.
    fn lease_due(&mut self, registration: &RegistrationId, quota: u32) -> Result<u32, StoreError> {
        let now = self.now.unix_ms();
        let horizon = self.now.after(HORIZON).unix_ms();
        let mut found = Vec::new();
        for (from, to) in [(i64::MIN, now), (horizon.saturating_add(1), i64::MAX)] {
            let room = i64::from(quota) - i64::try_from(found.len()).unwrap_or(i64::MAX);
            if room == 0 {
                break;
            }
            let parameters = params![
                registration.as_str(),
                from,
                to,
                now,
                horizon,
                room,
                self.mine
            ];
            let mut rows = self.due.query(parameters)?;
            while let Some(row) = rows.next()? {
                found.push(copy(row)?);
            }
        }
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        for raw in found {
            self.lease(registration, raw)?;
        }
        Ok(count)
    }

    /// Leases a row. One that cannot be read keeps its lease, and is not in the way of the others.
    fn lease(
        &mut self,
        registration: &RegistrationId,
        mut raw: RawClaimed,
    ) -> Result<(), StoreError> {
        let action = raw.row.action()?.into_owned();
        self.update
            .execute(params![action, self.owner, self.until.unix_ms(), raw.fence])?;
        match self.complete(&action, registration, &mut raw) {
            Ok(()) => self.rows.push(raw),
            Err(error @ StoreError::Corrupt { .. }) => record::unreadable(&action, &error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Adds what other tables have to a row.
    fn complete(
        &mut self,
        action: &str,
        registration: &RegistrationId,
        raw: &mut RawClaimed,
    ) -> Result<(), StoreError> {
        let row = &mut raw.row;
        if record::has_outcome(row.phase()?) {
            rows::add_outcome(self.db, action, row)?;
        }
        let run = row.run()?;
        if !self.runs.contains_key(run.as_ref()) {
            let state = rows::run(self.db, &run)?;
            self.runs.insert(run.into_owned(), state);
        }
        if !self.registrations.contains_key(registration) {
            let read = registrations::get(self.db, registration)?;
            self.registrations.insert(registration.clone(), read);
        }
        if row.asks()? {
            raw.answers = rows::answers(self.db, action)?;
        }
        Ok(())
    }
}

/// A row of what [`DUE`] finds.
fn copy(row: &Row<'_>) -> Result<RawClaimed, StoreError> {
    let columns = row.as_ref().column_count() - 3;
    let fence: i64 = row.get(columns)?;
    Ok(RawClaimed {
        row: RawRow::copy(row, columns)?,
        fence: fence.saturating_add(1),
        wakes: row.get(columns + 1)?,
        recovered: row.get(columns + 2)?,
        answers: Vec::new(),
    })
}

fn next_due(
    db: &Connection,
    now: Moment,
    registrations: &[RegistrationId],
) -> Result<Option<Moment>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT next_due FROM mcp_action_tasks INDEXED BY due_by_registration \
         WHERE registration_id = ?1 AND next_due IS NOT NULL AND next_due > ?2 \
         ORDER BY next_due LIMIT 1",
    )?;
    let mut earliest = None;
    for registration in registrations {
        let due: Option<i64> = statement
            .query_row(params![registration.as_str(), now.unix_ms()], |row| {
                row.get(0)
            })
            .optional()?;
        earliest = earliest.into_iter().chain(due).min();
    }
    Ok(earliest.map(Moment::from_unix_ms))
}

/// The condition that a claim still holds, on parameters 1 to 3.
pub(super) const HELD: &str = "action_id = ?1 AND lease_owner = ?2 AND fence = ?3";

pub(super) fn renew(
    db: &Connection,
    now: Moment,
    claim: &Claim,
    lease: Duration,
) -> Result<Renewed, StoreError> {
    let sql = format!("UPDATE mcp_action_tasks SET lease_until = ?4 WHERE {HELD} RETURNING phase");
    let phase: Option<String> = db
        .prepare_cached(&sql)?
        .query_row(
            params![
                claim.action.as_str(),
                claim.owner.to_string(),
                fence(claim),
                now.after(lease.min(HORIZON)).unix_ms()
            ],
            |row| row.get(0),
        )
        .optional()?;
    Ok(match phase.as_deref() {
        None => Renewed::Lost,
        Some("cancelled") => Renewed::Cancelled,
        Some(_) => Renewed::Held,
    })
}

pub(super) fn release(db: &Connection, claim: &Claim) -> Result<(), StoreError> {
    let sql =
        format!("UPDATE mcp_action_tasks SET lease_owner = NULL, lease_until = NULL WHERE {HELD}");
    db.prepare_cached(&sql)?.execute(params![
        claim.action.as_str(),
        claim.owner.to_string(),
        fence(claim)
    ])?;
    Ok(())
}

/// A fence as a column has it.
pub(super) fn fence(claim: &Claim) -> i64 {
    i64::try_from(claim.fence.get()).unwrap_or(i64::MAX)
}
