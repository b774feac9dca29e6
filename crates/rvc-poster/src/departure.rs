//! When a request that is ready leaves.
//!
//! A peer that has caught up sleeps, and is woken by the next request. When each task reads its
//! answer, prepares its next request and sends it before the next task does, the peer catches up
//! in between and is woken for every single one, which costs more than the request. So all tasks
//! that have an answer prepare first, and then their requests leave one right after the other.

use std::future::poll_fn;
use std::task::Poll;

/// Whether a request waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    AtOnce,
    Together,
}

impl Departure {
    /// Lets every other task that can run do so once, if the request leaves together with theirs.
    ///
    /// Unlike tokio's `yield_now` this does not poll for I/O, which costs another system call.
    pub(crate) async fn wait(self) {
        let mut has_waited = self == Self::AtOnce;
        poll_fn(|cx| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What two tasks do, in the order in which they do it.
    async fn steps(departure: Departure) -> Vec<&'static str> {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let tasks = [("prepare a", "send a"), ("prepare b", "send b")].map(|(prepare, send)| {
            let steps = steps.clone();
            tokio::spawn(async move {
                steps.lock().unwrap().push(prepare);
                departure.wait().await;
                steps.lock().unwrap().push(send);
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
        let steps = steps.lock().unwrap();
        steps.clone()
    }

    #[tokio::test]
    async fn what_leaves_together_is_prepared_before_any_of_it_leaves() {
        assert_eq!(
            steps(Departure::Together).await,
            ["prepare a", "prepare b", "send a", "send b"]
        );
        assert_eq!(
            steps(Departure::AtOnce).await,
            ["prepare a", "send a", "prepare b", "send b"]
        );
    }
}
