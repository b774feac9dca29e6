//! What every engine does alike: on `SQLite`, or on `PostgreSQL` beside a cluster.
#![allow(clippy::unwrap_used)]

mod answers;
mod attacks;
mod claims;
#[cfg(feature = "postgres")]
mod contention;
#[cfg(feature = "postgres")]
#[path = "../../tests/it/database.rs"]
mod database;
#[cfg(feature = "postgres")]
mod differential;
// The black-box tests use more of it.
#[allow(dead_code)]
#[path = "../../tests/it/engine.rs"]
mod engine;
mod model;
mod operations;
#[cfg(feature = "postgres")]
mod races;
mod registrations;
mod sql;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use self::engine::TestStore;
use super::*;
use crate::linkage::RemoteTask;
use crate::plan::{self, Jitter, Settings, StartAnswer};

/// The tables that say something of actions.
#[cfg(feature = "postgres")]
pub(super) const TABLES: [&str; 6] = [
    "runs",
    "actions",
    "registrations",
    "mcp_action_tasks",
    "mcp_action_outcomes",
    "mcp_input_answers",
];

const T0: i64 = 1_700_000_000_000;

/// A clock that only tests move.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(T0)))
    }

    fn advance(&self, duration: Duration) {
        self.0.fetch_add(ms(duration), Ordering::Relaxed);
    }

    fn set_back(&self, ms: i64) {
        self.set(self.now().unix_ms().saturating_sub(ms).max(0));
    }

    fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::Relaxed);
    }

    fn now(&self) -> Moment {
        Moment::from_unix_ms(self.0.load(Ordering::Relaxed))
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

fn open() -> (TestStore, Clock) {
    let clock = Clock::new();
    let time = clock.clone();
    (TestStore::new(move || time.now()), clock)
}

pub(super) fn submission(action: &str, registration: &str) -> Submission {
    Submission::new(
        action.parse().unwrap(),
        registration.parse().unwrap(),
        "navigate_to",
    )
}

pub(super) async fn submit(store: &dyn Store, action: &str, registration: &str) {
    let submitted = store
        .submit(submission(action, registration), HostKind::Ledger)
        .await;
    assert_eq!(submitted, Ok(Submitted::New));
}

pub(super) async fn claim(store: &dyn Store, limit: u32) -> Vec<Claimed> {
    let request = ClaimRequest::new(LeaseOwner::draw(), limit, Duration::from_secs(30));
    store.claim(request).await.unwrap().rows
}

fn remote(id: &str) -> RemoteTask {
    RemoteTask {
        kind: RemoteKind::Mcp,
        id: id.into(),
        created_at: "t0".into(),
        status: "working".into(),
        ended: false,
        progress: Some("half".into()),
        ttl: Some(Duration::from_secs(60)),
        poll_interval: None,
    }
}

/// Brings a claimed intent to `working`, as the supervisor does.
async fn link(store: &dyn Store, claimed: Claimed, id: &str, now: Moment) -> Linkage {
    let sending = plan::begun(claimed.row, now);
    let begin = Write::new(claimed.claim.clone(), crate::Phase::Intent, sending.clone());
    assert_eq!(store.write(begin.keep_lease()).await, Ok(Written::Applied));
    let answer = StartAnswer::Task(remote(id));
    let working = plan::started(sending, answer, &Settings::default(), now, Jitter::NONE);
    let linked = Write::new(claimed.claim, crate::Phase::Sending, working.clone());
    assert_eq!(store.write(linked).await, Ok(Written::Applied));
    working
}
