//! The sessions that are open, and what each owes its client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use uuid::Uuid;

use crate::sse::frame;
use crate::sse::stream::EventStream;
use crate::sse::transport::SseTransport;

/// How many answers a session may owe before it takes no further request.
pub(crate) const MAX_OWED: usize = 256;

/// How long a request waits for the session to owe less.
const ADMISSION: Duration = Duration::from_secs(10);

/// Messages taken from POSTs and not yet read by the service, which reads without pause.
const INCOMING: usize = 64;

/// Frames waiting for the client to read its stream.
const OUTGOING: usize = 64;

/// A frame on its way to the client, with the debt that is paid when it leaves.
pub(crate) struct Outgoing {
    pub(crate) frame: Bytes,
    pub(crate) debt: Option<Debt>,
}

/// An answer that is owed; paid by dropping it.
#[derive(Debug)]
pub(crate) struct Debt {
    _permit: OwnedSemaphorePermit,
    /// Shutdown waits for the calls in flight.
    _call: TaskTrackerToken,
}

/// The answers that one session owes, by request.
#[derive(Debug)]
pub(crate) struct Ledger {
    room: Arc<Semaphore>,
    calls: TaskTracker,
    debts: Mutex<HashMap<RequestId, Debt>>,
}

impl Ledger {
    fn new(calls: TaskTracker) -> Self {
        Self {
            room: Arc::new(Semaphore::new(MAX_OWED)),
            calls,
            debts: Mutex::default(),
        }
    }

    /// Takes a debt on; waits while the session owes too much.
    async fn owe(&self, id: RequestId) -> Result<(), PushError> {
        let permit = timeout(ADMISSION, Arc::clone(&self.room).acquire_owned())
            .await
            .map_err(|_| PushError::Busy)?
            .expect("the semaphore is never closed");
        let debt = Debt {
            _permit: permit,
            _call: self.calls.token(),
        };
        // A second request under the same id gets no answer of its own from rmcp.
        self.debts().insert(id, debt);
        Ok(())
    }

    /// The debt for this request leaves the ledger, to be paid or forgiven by its new owner.
    pub(crate) fn settle(&self, id: &RequestId) -> Option<Debt> {
        self.debts().remove(id)
    }

    fn debts(&self) -> MutexGuard<'_, HashMap<RequestId, Debt>> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a message was not passed to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PushError {
    /// The session owes [`MAX_OWED`] answers, and paid none of them for a while.
    #[error("the session has too many unanswered requests")]
    Busy,
    /// The session's service has ended.
    #[error("the session has ended")]
    Ended,
}

/// The side of a session that takes messages from POSTs.
#[derive(Debug)]
pub(crate) struct Session {
    incoming: mpsc::Sender<ClientJsonRpcMessage>,
    ledger: Arc<Ledger>,
}

impl Session {
    /// Passes a message to the session's service.
    ///
    /// Notifications and answers never wait for room: a client can always cancel.
    pub(crate) async fn push(&self, message: ClientJsonRpcMessage) -> Result<(), PushError> {
        match &message {
            JsonRpcMessage::Request(request) => self.ledger.owe(request.id.clone()).await?,
            JsonRpcMessage::Notification(notification) => {
                // rmcp sends no answer to a request that was cancelled.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    drop(self.ledger.settle(id));
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        // What an ended session owes is forgiven when its stream is dropped.
        self.incoming
            .send(message)
            .await
            .map_err(|_| PushError::Ended)
    }
}

/// All sessions of one server, by their ids.
#[derive(Debug)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<Box<str>, Arc<Session>>>,
    calls: TaskTracker,
    end: CancellationToken,
}

/// A session that was just opened.
pub(crate) struct Opened {
    pub(crate) stream: EventStream,
    pub(crate) transport: SseTransport,
    /// Ends the session's service.
    pub(crate) end: CancellationToken,
}

impl Sessions {
    /// `calls` counts the answers owed by all sessions; `end` ends all of them.
    pub(crate) fn new(calls: TaskTracker, end: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            calls,
            end,
        })
    }

    /// Opens a session under a new id of 122 random bits.
    pub(crate) fn open(self: &Arc<Self>) -> Opened {
        let id: Box<str> = Uuid::new_v4().simple().to_string().into();
        let end = self.end.child_token();
        let ledger = Arc::new(Ledger::new(self.calls.clone()));
        let (incoming, received) = mpsc::channel(INCOMING);
        let (outgoing, to_send) = mpsc::channel(OUTGOING);
        let session = Session {
            incoming,
            ledger: Arc::clone(&ledger),
        };
        self.lock().insert(id.clone(), Arc::new(session));
        let first = frame::endpoint(&id);
        let open = OpenSession {
            id,
            sessions: Arc::clone(self),
            end: end.clone(),
        };
        Opened {
            stream: EventStream::new(first, to_send, open),
            transport: SseTransport::new(received, outgoing, ledger, end.clone()),
            end,
        }
    }

    /// The session with this id, while its stream is open.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.lock().get(id).cloned()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by the event stream: dropping it ends the session.
#[derive(Debug)]
pub(crate) struct OpenSession {
    id: Box<str>,
    sessions: Arc<Sessions>,
    end: CancellationToken,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.id);
        self.end.cancel();
    }
}
