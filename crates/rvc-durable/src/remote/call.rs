use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{CancelledNotificationParam, ClientRequest, RequestMetaObject, ServerResult};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::failure::CallFailure;

/// How long a call may take, and what goes along with it.
pub(super) struct Bounds {
    /// Without a sign of life.
    pub(super) idle: Duration,
    /// In all, progress or not.
    pub(super) total: Duration,
    /// Extra `_meta`.
    pub(super) meta: Option<RequestMetaObject>,
    /// Ends the wait early; the server is told that nobody waits any more.
    pub(super) abandon: CancellationToken,
}

impl Bounds {
    /// The same limit for silence and for everything.
    pub(super) fn within(timeout: Duration) -> Self {
        Self {
            idle: timeout,
            total: timeout,
            meta: None,
            abandon: CancellationToken::new(),
        }
    }
}

/// Sends one request and waits for its answer, for a bounded time.
pub(super) async fn call(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    bounds: Bounds,
) -> Result<ServerResult, CallFailure> {
    let mut options = PeerRequestOptions::with_timeout(bounds.idle)
        .with_max_total_timeout(bounds.total)
        .reset_timeout_on_progress();
    options.meta = bounds.meta;
    let answer = async {
        let handle = peer.send_request_with_option(request, options).await?;
        let id = handle.id.clone();
        tokio::select! {
            biased;
            answer = handle.await_response() => answer,
            () = bounds.abandon.cancelled() => {
                let reason = "the host cancelled".to_owned();
                let params = CancelledNotificationParam::new(Some(id), Some(reason.clone()));
                let _ = peer.notify_cancelled(params).await;
                Err(ServiceError::Cancelled { reason: Some(reason) })
            }
        }
    };
    // rmcp's own timeouts begin when the request is queued: a transport that takes nothing more
    // must not hold the step for ever either.
    let limit = bounds.total.saturating_add(SLACK);
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer.map_err(CallFailure::of),
        Err(_) => Err(CallFailure::Lost {
            reason: format!("the connection took nothing for {limit:?}"),
            retry_after: None,
        }),
    }
}

/// An answer as the JSON that it was.
pub(super) fn raw(result: &ServerResult) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

/// What rmcp gets to report a timeout by itself.
const SLACK: Duration = Duration::from_secs(2);
