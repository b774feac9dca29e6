//! Drives linkages: claims due rows, does one remote step each, writes it back.
//!
//! ```text
//! Store ──claim──► step (plan::next ─► remote call ─► plan) ──write──► Store
//!                     at most N at once, at most M of one registration
//! ```
//!
//! Recovery after a restart is the ordinary claim: a row whose holder is gone is free when its
//! lease is over.

mod checkpoint;
mod hand;
mod options;
mod signals;
mod step;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

pub use self::checkpoint::{Checkpoint, DurableStep};
pub use self::options::SupervisorOptions;
pub use self::signals::Update;
pub(crate) use self::signals::{Signals, told_elsewhere};
use self::step::Stepper;
use crate::log;
use crate::name::{ActionId, RegistrationId};
use crate::remote::Remotes;
use crate::store::{Claim, ClaimRequest, Claims, LeaseOwner, News, SharedStore};

/// Claims and drives due rows until it is told to stop.
pub(crate) struct Supervisor {
    stepper: Arc<Stepper>,
    store: SharedStore,
    remotes: Remotes,
    signals: Signals,
    options: SupervisorOptions,
    owner: LeaseOwner,
    /// Fires when the steps in hand have had their grace.
    give_up: CancellationToken,
    in_hand: HashMap<Id, (RegistrationId, ActionId)>,
    /// Whose row was claimed last.
    served: Option<RegistrationId>,
}

impl Supervisor {
    pub(crate) fn new(
        store: SharedStore,
        remotes: Remotes,
        signals: Signals,
        options: SupervisorOptions,
    ) -> Self {
        let give_up = CancellationToken::new();
        let stepper = Stepper::new(
            store.clone(),
            remotes.clone(),
            signals.clone(),
            options.clone(),
            give_up.clone(),
        );
        Self {
            stepper: Arc::new(stepper),
            store,
            remotes,
            signals,
            options,
            owner: LeaseOwner::draw(),
            give_up,
            in_hand: HashMap::new(),
            served: None,
        }
    }

    /// Runs until `stop`; then finishes the steps in hand, as far as the grace for it allows,
    /// gives what was not begun back, and returns.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut steps: JoinSet<()> = JoinSet::new();
        let mut failures = 0_u32;
        // Beside the claims: a large table takes a while to count.
        let counting = tokio::spawn(count(self.store.clone(), self.options.census_interval));
        let _counting = AbortOnDropHandle::new(counting);
        let mut news = self.store.news();
        while !stop.is_cancelled() {
            let mut wait = self.options.tick;
            let room = self.options.max_concurrent.saturating_sub(steps.len());
            if room > 0 {
                let limit = u32::try_from(room.min(CLAIM_BATCH)).unwrap_or(u32::MAX);
                let asked = Instant::now();
                let claimed = tokio::select! {
                    claimed = self.claim(limit) => claimed,
                    // Its rows cannot be given back; that costs others a lease.
                    () = long_stopped(&stop) => break,
                };
                match claimed {
                    Ok(claims) if stop.is_cancelled() => {
                        self.give_back(claims).await;
                        break;
                    }
                    Ok(claims) => {
                        failures = 0;
                        let full = claims.is_full;
                        wait = self.pause(&claims);
                        self.begin(claims, asked, &mut steps);
                        if full {
                            wait = Duration::ZERO;
                        }
                    }
                    Err(error) => {
                        failures = failures.saturating_add(1);
                        tracing::error!(%error, failures, "due tasks cannot be claimed");
                        wait = self.options.tick * failures.min(30);
                    }
                }
            }
            // With no room left, or nothing due, a finished step or a signal goes on.
            let idle = wait > Duration::ZERO || steps.len() >= self.options.max_concurrent;
            if idle {
                tokio::select! {
                    () = stop.cancelled() => {}
                    Some(done) = steps.join_next_with_id() => {
                        self.end(done);
                        self.gather(&mut steps).await;
                    }
                    () = self.signals.due() => {}
                    () = told_elsewhere(&mut news, |told| *told == News::Due) => {}
                    () = tokio::time::sleep(wait), if wait > Duration::ZERO => {}
                }
            }
            while let Some(done) = steps.try_join_next_with_id() {
                self.end(done);
            }
        }
        self.finish(steps).await;
    }

    /// Steps end in groups, as the store commits them: one claim replaces all that end in the
    /// same moment, instead of one for each.
    async fn gather(&mut self, steps: &mut JoinSet<()>) {
        let moment = Instant::now() + GATHERING;
        for _ in 1..CLAIM_BATCH {
            match tokio::time::timeout_at(moment, steps.join_next_with_id()).await {
                Ok(Some(done)) => self.end(done),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Ends the steps in hand: first they may come to their end, then they give up what they
    /// wait for and write that down, and what cannot even do that is left to its lease.
    async fn finish(&mut self, mut steps: JoinSet<()>) {
        let grace = self.options.close_grace;
        if tokio::time::timeout(grace, self.drain(&mut steps))
            .await
            .is_ok()
        {
            return;
        }
        let waiting = steps.len();
        tracing::warn!(steps = waiting, ?grace, "the steps in hand are given up");
        self.give_up.cancel();
        if tokio::time::timeout(LAST_WORDS, self.drain(&mut steps))
            .await
            .is_err()
        {
            let left = steps.len();
            tracing::warn!(
                steps = left,
                "steps could not be written; their leases run out"
            );
            gauge(0);
        }
    }

    async fn drain(&mut self, steps: &mut JoinSet<()>) {
        while let Some(done) = steps.join_next_with_id().await {
            self.end(done);
        }
    }

    async fn claim(&self, limit: u32) -> Result<Claims, crate::store::StoreError> {
        let mut request = ClaimRequest::new(self.owner, limit, self.options.lease);
        request.per_registration =
            u32::try_from(self.options.max_per_registration).unwrap_or(u32::MAX);
        for (registration, action) in self.in_hand.values() {
            *request.in_hand.entry(registration.clone()).or_default() += 1;
            request.mine.push(action.clone());
        }
        // One place in all for a server that does not answer: the others count as taken.
        for registration in self.remotes.ailing() {
            let taken = request.in_hand.entry(registration).or_default();
            *taken = taken.saturating_add(request.per_registration - 1);
        }
        request.served.clone_from(&self.served);
        self.store.claim(request).await
    }

    /// How long nothing can be due.
    fn pause(&self, claims: &Claims) -> Duration {
        let next = claims.next_due.map(|due| due.since(claims.now));
        next.unwrap_or(self.options.tick)
            .clamp(SHORTEST_PAUSE, self.options.tick)
    }

    fn begin(&mut self, claims: Claims, asked: Instant, steps: &mut JoinSet<()>) {
        for claimed in claims.rows {
            let registration = claimed.row.registration.clone();
            let action = claimed.row.action.clone();
            self.served = Some(registration.clone());
            let stepper = self.stepper.clone();
            let span = tracing::info_span!(
                "mcp_task_step",
                action_id = %claimed.row.action,
                registration_id = %registration,
                phase = %claimed.row.phase,
                fence = %claimed.claim.fence,
            );
            let now = claims.now;
            let step = async move { Box::pin(stepper.run(claimed, now, asked)).await };
            let id = steps.spawn(step.instrument(span)).id();
            self.in_hand.insert(id, (registration, action));
        }
        gauge(self.in_hand.len());
    }

    fn end(&mut self, done: Result<(Id, ()), JoinError>) {
        let id = match &done {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.in_hand.remove(&id);
        gauge(self.in_hand.len());
        if let Err(error) = done {
            // Its row is free again when its lease is over.
            tracing::error!(%error, "a step panicked");
        }
    }

    async fn give_back(&self, claims: Claims) {
        let releases = claims.rows.into_iter().map(|it| self.release(it.claim));
        if tokio::time::timeout(LAST_WORDS, join_all(releases))
            .await
            .is_err()
        {
            tracing::warn!("leases could not be given back; they run out by themselves");
        }
    }

    async fn release(&self, claim: Claim) {
        if let Err(error) = self.store.release(claim).await {
            tracing::warn!(%error, "a lease could not be given back; it runs out by itself");
        }
    }
}

/// Counts the rows, again and again.
async fn count(store: SharedStore, every: Duration) {
    loop {
        match store.census().await {
            Ok(census) => log::gauges(&census),
            Err(error) => tracing::warn!(%error, "rows cannot be counted"),
        }
        tokio::time::sleep(every).await;
    }
}

/// Waits until a stop that was asked for has waited as long as it may.
async fn long_stopped(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(LAST_WORDS).await;
}

// A gauge is a float; the number of steps is small.
#[allow(clippy::cast_precision_loss)]
fn gauge(steps: usize) {
    metrics::gauge!("rvc_durable_steps_in_hand").set(steps as f64);
}

/// Rows in one claim: enough to be worth a commit, few enough to begin before leases run out.
const CLAIM_BATCH: usize = 32;

/// What a claim waits for further steps to end: the clock's shortest time.
const GATHERING: Duration = Duration::from_millis(1);

/// What steps that were given up get to write so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The clock has milliseconds; a shorter pause would spin.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
