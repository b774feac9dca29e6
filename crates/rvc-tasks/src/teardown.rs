//! Drives a task from its seal to its end (contract decision 19).
//!
//! Each teardown is a tokio task of its own on the runtime where the task was started, so that it
//! goes on when the client that asked for it hangs up. With bodies apart that is never theirs, so
//! that it goes on while they block.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::CancelMode;
use crate::lifecycle::{Seal, Sealing};
use crate::manager::Inner;
use crate::record::Record;

/// Seals a task as cancelled; from then on its teardown is under way.
pub(crate) fn request_cancel(manager: &Arc<Inner>, record: &Arc<Record>) -> Sealing {
    let sealing = record.seal(Seal::Cancel);
    if sealing == Sealing::Accepted {
        let teardown = drive(Arc::clone(manager), Arc::clone(record));
        record.runtime().spawn(teardown);
    }
    sealing
}

/// Seals a task as timed out when its time is over.
pub(crate) fn watch_deadline(manager: &Arc<Inner>, record: &Arc<Record>, deadline: Duration) {
    let watched = Arc::clone(record);
    let manager = Arc::clone(manager);
    let watch = record.runtime().spawn(async move {
        sleep(deadline.saturating_sub(watched.age())).await;
        if watched.seal(Seal::Deadline(deadline)) == Sealing::Accepted {
            drive(manager, watched).await;
        }
    });
    record.attach_deadline(watch.abort_handle());
}

async fn drive(manager: Arc<Inner>, record: Arc<Record>) {
    let grace = match record.cancel_mode() {
        CancelMode::Droppable => {
            record.request_drop();
            manager.cancel_grace
        }
        CancelMode::Cooperative { grace } => grace.unwrap_or(manager.cancel_grace),
    };
    if timeout(grace, record.ended()).await.is_err() {
        // First, because the end lets go of the means to do it.
        record.request_drop();
        manager.grace_over(&record);
    }
}
