//! rmcp's side of a session.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::sse::frame;
use crate::sse::session::{Ledger, Outgoing};

/// How long a full queue may stand still before its client counts as gone.
const STALLED: Duration = Duration::from_secs(60);

/// Messages from the session's POSTs, and frames for its event stream.
#[derive(Debug)]
pub(crate) struct SseTransport {
    received: mpsc::Receiver<ClientJsonRpcMessage>,
    outgoing: mpsc::Sender<Outgoing>,
    ledger: Arc<Ledger>,
    end: CancellationToken,
}

impl SseTransport {
    pub(crate) fn new(
        received: mpsc::Receiver<ClientJsonRpcMessage>,
        outgoing: mpsc::Sender<Outgoing>,
        ledger: Arc<Ledger>,
        end: CancellationToken,
    ) -> Self {
        Self {
            received,
            outgoing,
            ledger,
            end,
        }
    }
}

/// Why a message did not reach the event stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("the event stream was dropped")]
    Dropped,
    #[error("the client does not read its event stream")]
    Stalled,
    #[error("the message does not serialize")]
    Encode(#[source] serde_json::Error),
}

impl Transport<RoleServer> for SseTransport {
    type Error = SendError;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        let answered = answered(&message);
        let is_answer = answered.is_some();
        let debt = answered.and_then(|id| self.ledger.settle(id));
        let outgoing = self.outgoing.clone();
        let end = self.end.clone();
        async move {
            let frame = frame::message(&message).map_err(SendError::Encode)?;
            match timeout(STALLED, outgoing.send(Outgoing { frame, debt })).await {
                Ok(Ok(())) => Ok(()),
                // A client may leave before its answer. rmcp would log that as an error.
                Ok(Err(_)) if is_answer => Ok(()),
                Ok(Err(_)) => Err(SendError::Dropped),
                Err(_) => {
                    tracing::warn!("an event stream is not read: its session ends");
                    end.cancel();
                    Err(SendError::Stalled)
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.received.recv().await
    }

    async fn close(&mut self) -> Result<(), SendError> {
        self.received.close();
        Ok(())
    }
}

/// The request that this message answers.
fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}
