use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::told_elsewhere;
use crate::moment::Moment;
use crate::store::{Claim, News, Renewed, Store};

/// The step in hand: the claim, its lease, and the store's clock as it has moved since.
pub(super) struct Hand {
    pub(super) claim: Claim,
    /// What the store's clock said last, and when that was heard.
    clock: Mutex<(Moment, Instant)>,
    lease: Duration,
    /// When the lease was taken or prolonged last.
    prolonged: Mutex<Instant>,
    /// Fires when the host cancelled during the step.
    pub(super) cancelled: CancellationToken,
}

impl Hand {
    /// A step whose row was claimed at `claimed_at` by the store's clock, by a claim that was
    /// `asked` for here. What passed until the answer was read is gone from the lease, but the
    /// store may have looked at its clock at the end of it: time is never taken to be later than
    /// it is, or a deadline would pass early.
    pub(super) fn new(claim: Claim, claimed_at: Moment, asked: Instant, lease: Duration) -> Self {
        Self {
            claim,
            clock: Mutex::new((claimed_at, Instant::now())),
            lease,
            prolonged: Mutex::new(asked),
            cancelled: CancellationToken::new(),
        }
    }

    pub(super) fn now(&self) -> Moment {
        let (said, heard) = *lock(&self.clock);
        said.after(heard.elapsed())
    }

    /// The store's clock was read again.
    pub(super) fn hears(&self, now: Moment) {
        *lock(&self.clock) = (now, Instant::now());
    }

    /// Does `work` while prolonging the lease.
    ///
    /// A lease that is lost is not reported: what `work` brings is refused by the fence, and a
    /// start that was sent cannot be unsent.
    pub(super) async fn while_held<T>(
        &self,
        store: &dyn Store,
        work: impl Future<Output = T>,
    ) -> T {
        let prolong = async {
            // The host may cancel in another process.
            let mut elsewhere = store.news();
            let changed = News::Changed(self.claim.action.clone());
            loop {
                tokio::select! {
                    () = sleep_until(self.due()) => {}
                    () = told_elsewhere(&mut elsewhere, |told| *told == changed) => {}
                }
                if !self.prolong(store).await {
                    return;
                }
                if Instant::now() >= self.due() {
                    sleep(self.lease / 12).await;
                }
            }
        };
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = prolong => {}
        }
        work.await
    }

    /// Whether the row is still this step's. The lease is prolonged first where a third of it
    /// has passed, as it has for a process that was stopped or starved.
    pub(super) async fn is_held(&self, store: &dyn Store) -> bool {
        Instant::now() < self.due()
            || self.prolong(store).await && Instant::now() < self.prolonged() + self.lease
    }

    /// `false` when somebody else has the row.
    async fn prolong(&self, store: &dyn Store) -> bool {
        // It counts from here at the earliest.
        let begun = Instant::now();
        match store.renew(self.claim.clone(), self.lease).await {
            Ok(Renewed::Lost) => {
                tracing::warn!("the lease was lost while a step was under way");
                return false;
            }
            Ok(renewed) => {
                *lock(&self.prolonged) = begun;
                if renewed == Renewed::Cancelled {
                    self.cancelled.cancel();
                }
            }
            Err(error) => tracing::warn!(%error, "the lease could not be prolonged"),
        }
        true
    }

    fn due(&self) -> Instant {
        self.prolonged() + self.lease / 3
    }

    fn prolonged(&self) -> Instant {
        *lock(&self.prolonged)
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkage::Fence;
    use crate::store::LeaseOwner;

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_to_a_claim_costs_lease_and_does_not_put_the_clock_forward() {
        let asked = Instant::now();
        sleep(Duration::from_secs(20)).await;
        let claim = Claim {
            action: "a".parse().unwrap(),
            owner: LeaseOwner::draw(),
            fence: Fence::new(1),
            wakes: 0,
        };
        let claimed_at = Moment::from_unix_ms(0);

        let hand = Hand::new(claim, claimed_at, asked, Duration::from_secs(30));

        assert_eq!(hand.now(), claimed_at);
        assert!(hand.due() < Instant::now(), "a third of the lease is over");
    }
}
