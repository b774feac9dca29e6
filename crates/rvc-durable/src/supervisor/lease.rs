use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::{Claim, Renewed, Store};

/// Does `work` while prolonging the lease. `cancelled` fires when the host has cancelled.
///
/// A lease that is lost is not reported: what `work` brings is refused by the fence, and a
/// start that was sent cannot be unsent.
pub(super) async fn holding<T>(
    store: &dyn Store,
    claim: &Claim,
    lease: Duration,
    cancelled: &CancellationToken,
    work: impl Future<Output = T>,
) -> T {
    let prolong = async {
        loop {
            tokio::time::sleep(lease / 3).await;
            match store.renew(claim.clone(), lease).await {
                Ok(Renewed::Held) => {}
                Ok(Renewed::Cancelled) => cancelled.cancel(),
                Ok(Renewed::Lost) => {
                    tracing::warn!("the lease was lost while a call was under way");
                    return;
                }
                Err(error) => tracing::warn!(%error, "the lease could not be prolonged"),
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
