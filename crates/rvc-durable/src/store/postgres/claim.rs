use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_postgres::Row;

use super::database::Session;
use super::failure::Failure;
use super::values::{get, hidden, revealed};
use crate::linkage::Fence;
use crate::moment::Moment;
use crate::plan::HORIZON;
use crate::store::record::{self, Columns as _, Value, ms};
use crate::store::{
    Claim, ClaimRequest, Claimed, Claims, LeaseOwner, Renewed, StoreError, Surroundings,
};

/// Its columns begin with those of a row.
const CLAIM: &str = "SELECT * FROM claim_due($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

pub(super) fn claim<'a>(
    session: &'a Session<'a>,
    request: &'a ClaimRequest,
) -> BoxFuture<'a, Result<Claims, Failure>> {
    Box::pin(async move {
        let hands: Vec<_> = request
            .in_hand
            .keys()
            .map(|id| hidden(id.as_str()))
            .collect();
        let in_hands: Vec<_> = request
            .in_hand
            .values()
            .map(|count| i64::from(*count))
            .collect();
        let mine: Vec<_> = request.mine.iter().map(|it| hidden(it.as_str())).collect();
        let served = request.served.as_ref().map(|id| hidden(id.as_str()));
        let rows = session
            .query(
                CLAIM,
                &[
                    &request.owner.to_string(),
                    &session.at(),
                    &i64::from(request.limit),
                    &i64::from(request.per_registration),
                    &hands,
                    &in_hands,
                    &served,
                    &ms(request.lease),
                    &ms(HORIZON),
                    &mine,
                ],
            )
            .await?;
        let first = rows.first().ok_or(StoreError::Closed)?;
        let is_full = first.text(0)?.is_some() && rows.len() == request.limit as usize;
        let next_due = first.number(52)?.map(Moment::from_unix_ms);
        let claims = Claims {
            now: Moment::from_unix_ms(get(first, 51)?),
            is_full,
            next_due: next_due.filter(|_| !is_full),
            rows: rows
                .iter()
                .filter_map(|row| readable(row, request.owner))
                .collect(),
        };
        Ok(claims)
    })
}

/// Reads a row that was leased. One that cannot be read keeps its lease, and is not in the way of
/// the others.
fn readable(row: &Row, owner: LeaseOwner) -> Option<Claimed> {
    claimed(row, owner).unwrap_or_else(|error| {
        let action = row.text(0).ok().flatten().unwrap_or_default();
        record::unreadable(&action, &error);
        None
    })
}

/// Reads a row that was leased; none where only the time was given.
fn claimed(row: &Row, owner: LeaseOwner) -> Result<Option<Claimed>, StoreError> {
    if row.text(0)?.is_none() {
        return Ok(None);
    }
    let number = |column| Ok::<_, StoreError>(u64::try_from(get::<i64>(row, column)?).unwrap_or(0));
    let (fence, wakes) = (Fence::new(number(42)?), number(43)?);
    let linkage = record::linkage(row)?;
    let texts =
        |column| Ok::<_, StoreError>(get::<Option<Vec<String>>>(row, column)?.unwrap_or_default());
    let keys = texts(54)?;
    let keys = keys.iter().map(|key| revealed(key).into_owned());
    let registration = match row.text(46)? {
        None => None,
        Some(_) => Some(record::registration(row, 46)?),
    };
    Ok(Some(Claimed {
        claim: Claim {
            action: linkage.action.clone(),
            owner,
            fence,
            wakes,
        },
        recovered: row.flag(53)?,
        until: Moment::from_unix_ms(get(row, 44)?),
        surroundings: Surroundings {
            run: row.text(45)?.as_deref().map(record::run_state),
            registration,
            answers: record::answers(keys.zip(texts(55)?))?,
        },
        row: linkage,
    }))
}

/// The condition that a claim still holds, on parameters 1 to 3.
pub(super) const HELD: &str = "t.action_id = $1 AND t.lease_owner = $2 AND t.fence = $3";

/// Parameters 1 to 3.
pub(super) fn held<'a>(claim: &'a Claim, owner: &'a str) -> [Value<'a>; 3] {
    [
        Value::text(claim.action.as_str()),
        Value::text(owner),
        Value::count(claim.fence.get()),
    ]
}

/// Bookkeeping of leases, which is not worth waiting for the disk. A renewal that is lost with
/// the server's memory makes the row free earlier than its holder thinks: the next claim raises
/// the fence, and nothing that the old holder writes is taken. A release that is lost leaves a
/// lease that runs out by itself.
const PACE: &str = "WITH pace AS MATERIALIZED (\
    SELECT set_config('synchronous_commit', 'off', true) AS pace, store_now($4) AS now)";

pub(super) fn renew<'a>(
    session: &'a Session<'a>,
    (claim, lease): &'a (Claim, Duration),
) -> BoxFuture<'a, Result<Renewed, Failure>> {
    Box::pin(async move {
        let sql = format!(
            "{PACE} UPDATE mcp_action_tasks AS t SET lease_until = pace.now + $5 FROM pace \
             WHERE {HELD} RETURNING t.phase"
        );
        let owner = claim.owner.to_string();
        let [action, owner, fence] = held(claim, &owner);
        let values = [
            action,
            owner,
            fence,
            session.at(),
            Value::count(ms((*lease).min(HORIZON))),
        ];
        let row = session.row(&sql, &values).await?;
        let phase = row.as_ref().map(|row| record::text(row, 0)).transpose()?;
        Ok(match phase.as_deref() {
            None => Renewed::Lost,
            Some("cancelled") => Renewed::Cancelled,
            Some(_) => Renewed::Held,
        })
    })
}

pub(super) fn release<'a>(
    session: &'a Session<'a>,
    claim: &'a Claim,
) -> BoxFuture<'a, Result<(), Failure>> {
    Box::pin(async move {
        let sql = format!(
            "{PACE} UPDATE mcp_action_tasks AS t SET lease_owner = NULL, lease_until = NULL \
             FROM pace WHERE {HELD}"
        );
        let owner = claim.owner.to_string();
        let [action, owner, fence] = held(claim, &owner);
        session
            .change(&sql, &[action, owner, fence, session.at()])
            .await?;
        Ok(())
    })
}
