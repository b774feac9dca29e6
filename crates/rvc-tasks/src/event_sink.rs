use std::pin::Pin;
use std::time::Duration;

use rvc_poster::{EventPoster, OutgoingEvent};
use rvc_wire::{ServerName, TaskId};

/// The port that events leave through. Adapters: [`EventPoster`], [`NoSink`],
/// [`MemorySink`](crate::MemorySink).
pub trait EventSink: Send + Sync + 'static {
    /// Takes an event for delivery.
    ///
    /// The events of a task come in the order of their `seq`, one at a time: the call is made
    /// under the task's lock. So it must be quick, must not block, and must not call back into
    /// the manager.
    fn post(&self, event: OutgoingEvent);

    /// Drops what it has not sent yet of a task that somebody cancelled: a brain that was told so
    /// must not be told of a trigger minutes later (contract decision 19).
    ///
    /// It may be called more than once for a task, and is not for those that a
    /// [`close`](crate::TaskManager::close) of the manager ends: what these had reported is
    /// delivered while the sink drains.
    ///
    /// No event of the task is posted after it. An event that is on its way cannot be recalled
    /// and may still arrive, but it is not sent again. The call is made under the task's lock,
    /// like that of [`post`](Self::post). A sink that keeps nothing back has nothing to do.
    fn forget(&self, task: &TaskId);

    /// Stops taking events, and delivers what is left for at most `drain`.
    ///
    /// It may be called more than once, and dropped before its end.
    fn close(&self, drain: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// The server that it sends for, if it is bound to one.
    fn server(&self) -> Option<&ServerName> {
        None
    }
}

impl EventSink for EventPoster {
    fn post(&self, event: OutgoingEvent) {
        Self::post(self, event);
    }

    fn forget(&self, task: &TaskId) {
        Self::forget(self, task);
    }

    fn close(&self, drain: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // The poster has logged what was left.
            Self::close(self, drain).await;
        })
    }

    fn server(&self) -> Option<&ServerName> {
        Some(Self::server(self))
    }
}

/// A sink that drops every event: for a server that is only polled.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl EventSink for NoSink {
    fn post(&self, _: OutgoingEvent) {}

    fn forget(&self, _: &TaskId) {}

    fn close(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}
