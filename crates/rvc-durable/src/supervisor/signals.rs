use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};

use crate::linkage::Linkage;
use crate::name::ActionId;
use crate::phase::Phase;
use crate::store::News;

/// Something that changed about an action. News, not truth: the row has that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Update {
    /// The action.
    pub action: ActionId,
    /// Its phase.
    pub phase: Phase,
    /// The newest progress, if the server gives any.
    pub progress: Option<String>,
    /// Keys under which the remote task asks for input since the last update. Each comes once, and
    /// again where the server refused the answer to it.
    pub asks: Vec<String>,
}

/// What parts of one process tell each other, so that they need not wait for a tick.
#[derive(Clone)]
pub(crate) struct Signals {
    due: Arc<Notify>,
    updates: broadcast::Sender<Update>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self {
            due: Arc::default(),
            updates: broadcast::Sender::new(UPDATES),
        }
    }

    /// Something is due.
    pub(crate) fn wake(&self) {
        self.due.notify_one();
    }

    pub(crate) async fn due(&self) {
        self.due.notified().await;
    }

    pub(crate) fn updates(&self) -> broadcast::Receiver<Update> {
        self.updates.subscribe()
    }

    pub(crate) fn changed(&self, before: &Linkage, row: &Linkage) {
        let keys = row.input_requests.keys();
        let asks = keys
            .filter(|key| !before.input_requests.contains_key(*key))
            .cloned()
            .collect();
        let progress = row
            .remote
            .as_ref()
            .and_then(|remote| remote.progress.clone());
        // Nobody listening is no failure.
        let _ = self.updates.send(Update {
            action: row.action.clone(),
            phase: row.phase,
            progress,
            asks,
        });
    }
}

/// Waits until another process says something that `wanted` is about, or may have said it.
/// For ever where the store carries no news.
pub(crate) async fn told_elsewhere(
    news: &mut Option<broadcast::Receiver<News>>,
    wanted: impl Fn(&News) -> bool,
) {
    while let Some(receiver) = news {
        match receiver.recv().await {
            Ok(told) if told == News::Missed || wanted(&told) => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => *news = None,
        }
    }
    std::future::pending::<()>().await;
}

/// Updates that a slow listener may be behind.
const UPDATES: usize = 1024;
