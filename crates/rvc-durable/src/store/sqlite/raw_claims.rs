//! What a claim takes out of the engine, as it is.
//!
//! The engine's thread has the writes of everybody to do: to make rows of it is left to the
//! thread of whoever asked.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::raw_row::RawRow;
use crate::linkage::Fence;
use crate::moment::Moment;
use crate::name::RegistrationId;
use crate::plan::RunState;
use crate::registration::Registration;
use crate::store::record;
use crate::store::{Claim, Claimed, Claims, LeaseOwner, StoreError, Surroundings};

/// Reads what is taken while its commit is under way, and gives it back when that is done: the
/// last of it, where it was taken more than once.
pub(super) async fn read(
    mut early: mpsc::UnboundedReceiver<RawClaims>,
    mut committed: BoxFuture<'_, Result<(), StoreError>>,
) -> Result<Claims, StoreError> {
    let mut claims = None;
    loop {
        tokio::select! {
            biased;
            Some(raw) = early.recv() => claims = Some(raw.read()),
            committed = &mut committed => break committed?,
        }
    }
    // Between the two looks both may have come.
    while let Ok(raw) = early.try_recv() {
        claims = Some(raw.read());
    }
    claims.ok_or(StoreError::Closed)
}

/// The rows of a claim, and what they have in common, read once.
pub(super) struct RawClaims {
    pub(super) rows: Vec<RawClaimed>,
    pub(super) owner: LeaseOwner,
    pub(super) until: Moment,
    pub(super) runs: HashMap<String, Option<RunState>>,
    pub(super) registrations: HashMap<RegistrationId, Option<Registration>>,
    pub(super) now: Moment,
    pub(super) is_full: bool,
    pub(super) next_due: Option<Moment>,
}

/// A row that was leased.
pub(super) struct RawClaimed {
    pub(super) row: RawRow,
    /// The fence of the lease, and the wakes, as their columns have them.
    pub(super) fence: i64,
    pub(super) wakes: i64,
    /// Whether an earlier holder never wrote it back.
    pub(super) recovered: bool,
    /// Answers of the host that were not sent yet, by key.
    pub(super) answers: Vec<(String, String)>,
}

impl RawClaims {
    /// Reads the rows. One that cannot be read keeps its lease, and is not in the way of the
    /// others.
    fn read(self) -> Claims {
        let mut rows = Vec::with_capacity(self.rows.len());
        for raw in &self.rows {
            match self.claimed(raw) {
                Ok(claimed) => rows.push(claimed),
                Err(error) => record::unreadable(&raw.row.action().unwrap_or_default(), &error),
            }
        }
        Claims {
            rows,
            now: self.now,
            is_full: self.is_full,
            next_due: self.next_due,
        }
    }

    fn claimed(&self, raw: &RawClaimed) -> Result<Claimed, StoreError> {
        let row = record::linkage(&raw.row)?;
        Ok(Claimed {
            claim: Claim {
                action: row.action.clone(),
                owner: self.owner,
                fence: Fence::new(unsigned(raw.fence)),
                wakes: unsigned(raw.wakes),
            },
            recovered: raw.recovered,
            until: self.until,
            surroundings: Surroundings {
                run: self.runs.get(row.run.as_str()).copied().flatten(),
                registration: self.registrations.get(&row.registration).cloned().flatten(),
                answers: record::answers(raw.answers.clone())?,
            },
            row,
        })
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
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

    fn nothing(ms: i64) -> RawClaims {
        RawClaims {
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
