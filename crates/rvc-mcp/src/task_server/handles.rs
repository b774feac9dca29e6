//! The handles that were announced, and for how long each is kept.
//!
//! 1. A handle is found from before it is announced until the TTL that was announced last.
//! 2. A task that runs keeps its handle, however long it runs.
//! 3. Each handle has one watcher, which sees the task's end and the handle's; a look at the
//!    table is a look at one entry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rvc_tasks::{TaskHandle, TaskInfo};
use tokio::time::sleep;
use uuid::Uuid;

use super::authority::Principal;
use super::lifetime::{Grant, HandleLimits, Usage, grant, is_over, raised};

/// The handles of one manager's tasks.
#[derive(Default)]
pub(super) struct Handles {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    entries: HashMap<Arc<str>, Entry>,
    /// Places kept for calls that are under way.
    reserved: usize,
    /// What the entries' tasks leave.
    bytes: usize,
    /// TTLs are being shortened.
    is_scarce: bool,
}

struct Entry {
    principal: Principal,
    task: TaskHandle,
    poll_interval: Duration,
    /// What was announced last.
    ttl: Option<Duration>,
    bytes: usize,
    /// The watcher has seen the end: the TTL stays as it is.
    is_settled: bool,
}

impl Handles {
    /// Keeps a place for the handle of a task that may be started; none if there is no room.
    pub(super) fn reserve(
        self: &Arc<Self>,
        wish: Option<Duration>,
        limits: HandleLimits,
    ) -> Option<Place> {
        let mut table = self.lock();
        let usage = Usage {
            handles: table.entries.len() + table.reserved,
            bytes: table.bytes,
        };
        let granted = grant(wish, usage, limits);
        let is_scarce = !matches!(granted, Grant::Full(_));
        let was_scarce = std::mem::replace(&mut table.is_scarce, is_scarce);
        let ttl = match granted {
            Grant::Full(ttl) => Some(ttl),
            Grant::Shortened(ttl) => Some(Some(ttl)),
            Grant::Refused => None,
        };
        table.reserved += usize::from(ttl.is_some());
        drop(table);
        if is_scarce && !was_scarce {
            tracing::warn!(
                handles = usage.handles,
                bytes = usage.bytes,
                "many task handles are kept, new ones announce shorter lifetimes"
            );
        }
        ttl.map(|ttl| Place {
            handles: Arc::clone(self),
            ttl,
        })
    }

    /// The task behind a `taskId`, and its tool's poll interval.
    pub(super) fn find(&self, principal: &Principal, id: &str) -> Option<(TaskHandle, Duration)> {
        let table = self.lock();
        let entry = table.entries.get(id)?;
        let is_readable = !(entry.is_settled && is_over(entry.ttl, entry.task.age()));
        (entry.principal == *principal && is_readable)
            .then(|| (entry.task.clone(), entry.poll_interval))
    }

    /// The TTL to announce for a handle at this age of its task.
    pub(super) fn announce(&self, id: &str, age: Duration) -> Option<Duration> {
        let mut table = self.lock();
        let entry = table.entries.get_mut(id)?;
        if !entry.is_settled {
            entry.ttl = raised(entry.ttl, age);
        }
        entry.ttl
    }

    /// How many handles are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Notes that a task has ended. `Some` says when to look again; `None` that there is no
    /// need.
    fn settle(&self, id: &str, bytes: usize) -> Option<Duration> {
        let mut guard = self.lock();
        let table = &mut *guard;
        let entry = table.entries.get_mut(id)?;
        let age = entry.task.age();
        if !entry.is_settled {
            entry.is_settled = true;
            entry.ttl = raised(entry.ttl, age);
            table.bytes = table.bytes - entry.bytes + bytes;
            entry.bytes = bytes;
        }
        let ttl = entry.ttl?;
        if !is_over(entry.ttl, age) {
            return Some(ttl.saturating_sub(age));
        }
        let over = table.entries.remove(id);
        table.bytes -= over.as_ref().map_or(0, |entry| entry.bytes);
        drop(guard);
        // Outside the lock: it may be the last that keeps a large result.
        drop(over);
        None
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing that others wrote runs under the lock.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place for one handle, given back if it is not taken.
pub(super) struct Place {
    handles: Arc<Handles>,
    ttl: Option<Duration>,
}

impl Place {
    /// Makes the handle; from now on its `taskId` is found.
    pub(super) fn take(
        self,
        principal: &Principal,
        task: &TaskHandle,
        poll_interval: Duration,
    ) -> Arc<str> {
        // 122 random bits, from the system.
        let id: Arc<str> = Uuid::new_v4().to_string().into();
        let bytes = size_of_info(&task.info());
        let entry = Entry {
            principal: principal.clone(),
            task: task.clone(),
            poll_interval,
            ttl: self.ttl,
            bytes,
            is_settled: false,
        };
        {
            let mut table = self.handles.lock();
            table.bytes += bytes;
            table.entries.insert(Arc::clone(&id), entry);
        }
        let watch = watch(Arc::downgrade(&self.handles), Arc::clone(&id), task.clone());
        tokio::spawn(watch);
        id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.handles.lock().reserved -= 1;
    }
}

/// Sees the task's end, and lets its handle go when its time is over.
async fn watch(handles: Weak<Handles>, id: Arc<str>, task: TaskHandle) {
    task.ended().await;
    let bytes = size_of_info(&task.info());
    drop(task);
    loop {
        let look = handles
            .upgrade()
            .and_then(|handles| handles.settle(&id, bytes));
        match look {
            Some(again) => sleep(again).await,
            None => return,
        }
    }
}

fn size_of_info(info: &TaskInfo) -> usize {
    serde_json::to_vec(info).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests;
