use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rvc_wire::{EventId, ServerName};
use tokio::sync::watch;

use crate::gate::Verified;
use crate::inbox::Ledgers;
use crate::ledger::Entry;
use crate::{Accepted, Kind, Rejection};

/// Where requests for one event meet, so that a handler has it once.
///
/// Invariants, under one lock:
/// 1. An event with a [`Claim`] is not in the ledger yet; nobody else gets a claim for it.
/// 2. A claim ends in one step: with the event in the ledger, or without.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    ledgers: Ledgers,
    claimed: HashMap<Key, watch::Receiver<()>>,
}

type Key = (ServerName, EventId);

/// What to do with an event that verified.
#[derive(Debug)]
pub(crate) enum Step {
    /// It is new: hand it over under the claim.
    Handle(Accepted, Claim),
    /// It was taken before.
    Acknowledge(Accepted),
    /// Another request has the claim. Wait for its end, then come again.
    Wait(Verified, watch::Receiver<()>),
    Refuse(Rejection),
}

impl Desk {
    pub(crate) fn new(ledgers: Ledgers) -> Self {
        let claimed = HashMap::new();
        Self {
            shared: Arc::new(Mutex::new(Shared { ledgers, claimed })),
        }
    }

    pub(crate) fn receive(&self, verified: Verified) -> Step {
        let mut shared = self.lock();
        let key = (
            verified.event.server.clone(),
            verified.event.event_id.clone(),
        );
        if let Some(end) = shared.claimed.get(&key) {
            return Step::Wait(verified, end.clone());
        }
        let accepted = match shared.ledgers.judge(verified) {
            Ok(accepted) => accepted,
            Err(rejection) => return Step::Refuse(rejection),
        };
        if accepted.kind == Kind::Duplicate {
            shared.ledgers.remember(&key.0, &accepted.entry);
            return Step::Acknowledge(accepted);
        }
        let (sender, end) = watch::channel(());
        shared.claimed.insert(key.clone(), end);
        let claim = Claim {
            desk: self.clone(),
            key,
            entry: accepted.entry,
            _end: sender,
        };
        Step::Handle(accepted, claim)
    }

    /// Waits until no claim is left.
    pub(crate) async fn idle(&self) {
        loop {
            let Some(end) = self.lock().claimed.values().next().cloned() else {
                return;
            };
            ended(end).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // No code under the lock leaves the maps half changed.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the end of a claim.
pub(crate) async fn ended(mut end: watch::Receiver<()>) {
    // Nothing is ever sent: the end is that the sender is dropped.
    let _ = end.changed().await;
}

/// The right to hand one event to the handler. Dropped, it leaves the event untaken.
#[derive(Debug)]
pub(crate) struct Claim {
    desk: Desk,
    key: Key,
    entry: Entry,
    // Dropped after `Drop::drop`, so whoever waits finds the claim gone.
    _end: watch::Sender<()>,
}

impl Claim {
    /// Remembers that the event was taken.
    pub(crate) fn taken(self) {
        let mut shared = self.desk.lock();
        shared.ledgers.remember(&self.key.0, &self.entry);
        shared.claimed.remove(&self.key);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.desk.lock().claimed.remove(&self.key);
    }
}
