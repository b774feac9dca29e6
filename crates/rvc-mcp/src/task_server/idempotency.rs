//! Started once: a call that is made again under its key finds the task of the first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::ErrorData;
use rmcp::model::{JsonObject, MetaObject};
use rvc_tasks::{CallScope, TaskHandle, WeakTaskHandle};
use serde_json::Value;
use tokio::sync::watch;

use super::authority::Principal;
use super::fingerprint::{Fingerprint, Fingerprints};

/// Where a call's `_meta` has it.
const META_KEY: &str = "io.rvc/idempotency-key";
/// The most bytes of a key.
const MOST_BYTES: usize = 256;
/// Below this many entries it is not worth looking for dead ones.
const SWEEP_LEAST: usize = 64;

/// The key of a call, if it has one.
pub(super) fn key_of(meta: &MetaObject) -> Result<Option<String>, ErrorData> {
    match meta.get(META_KEY) {
        None => Ok(None),
        Some(Value::String(key)) if !key.is_empty() && key.len() <= MOST_BYTES => {
            Ok(Some(key.clone()))
        }
        Some(_) => {
            let message = format!("{META_KEY} must be a string of 1 to {MOST_BYTES} bytes");
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

/// The calls of one manager's tasks that have a key.
#[derive(Default)]
pub(super) struct Idempotency {
    calls: Mutex<Calls>,
    fingerprints: Fingerprints,
}

#[derive(Default)]
struct Calls {
    calls: HashMap<Arc<Name>, Known>,
    /// At this many entries those of tasks that are gone are let go.
    sweep_at: usize,
}

#[derive(PartialEq, Eq, Hash)]
struct Name {
    principal: Principal,
    key: String,
}

struct Known {
    fingerprint: Fingerprint,
    state: State,
}

enum State {
    /// The receiver learns when that is over.
    UnderWay(watch::Receiver<()>),
    Started {
        task: WeakTaskHandle,
        task_id: Option<Arc<str>>,
    },
}

/// What to do about a call with a key.
pub(super) enum Begun {
    /// Make it.
    First(Turn),
    /// It has been made: its task, and the `taskId` that was announced, if one was.
    Again(TaskHandle, Option<Arc<str>>),
}

impl Idempotency {
    /// Waits while the same call is under way.
    ///
    /// # Cancel safety
    ///
    /// Nothing has happened when it is dropped.
    pub(super) async fn begin(
        self: &Arc<Self>,
        principal: &Principal,
        key: String,
        tool: &str,
        arguments: Option<&JsonObject>,
        scope: &CallScope,
    ) -> Result<Begun, ErrorData> {
        let fingerprint = self.fingerprints.of(tool, arguments);
        let name = Arc::new(Name {
            principal: principal.clone(),
            key,
        });
        loop {
            let under_way = {
                let mut calls = self.lock();
                match calls.look(&name, fingerprint)? {
                    Seen::Never => {
                        let (done, over) = watch::channel(());
                        let state = State::UnderWay(over);
                        calls.insert(Arc::clone(&name), Known { fingerprint, state });
                        return Ok(Begun::First(Turn {
                            idempotency: Arc::clone(self),
                            name,
                            fingerprint,
                            scope: scope.clone(),
                            outcome: None,
                            _done: done,
                        }));
                    }
                    Seen::Started(task, id) => return Ok(Begun::Again(task, id)),
                    Seen::UnderWay(over) => over,
                }
            };
            wait(under_way).await;
        }
    }

    /// Notes the `taskId` that was announced when a call was made again.
    pub(super) fn note_id(&self, principal: &Principal, key: &str, id: &Arc<str>) {
        let name = Name {
            principal: principal.clone(),
            key: key.to_owned(),
        };
        let mut calls = self.lock();
        if let Some(known) = calls.calls.get_mut(&name)
            && let State::Started { task_id, .. } = &mut known.state
        {
            *task_id = Some(Arc::clone(id));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        // Nothing that others wrote runs under the lock.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn wait(mut over: watch::Receiver<()>) {
    // Nothing is sent: it is over when the sender is gone.
    while over.changed().await.is_ok() {}
}

/// What is known under a key.
enum Seen {
    Never,
    UnderWay(watch::Receiver<()>),
    Started(TaskHandle, Option<Arc<str>>),
}

impl Calls {
    fn look(&self, name: &Name, fingerprint: Fingerprint) -> Result<Seen, ErrorData> {
        let Some(known) = self.calls.get(name) else {
            return Ok(Seen::Never);
        };
        let seen = match &known.state {
            State::UnderWay(over) => Seen::UnderWay(over.clone()),
            State::Started { task, task_id } => match task.upgrade() {
                Some(task) => Seen::Started(task, task_id.clone()),
                None => return Ok(Seen::Never),
            },
        };
        if known.fingerprint == fingerprint {
            Ok(seen)
        } else {
            Err(reused())
        }
    }

    fn insert(&mut self, name: Arc<Name>, known: Known) {
        if self.calls.len() >= self.sweep_at {
            self.calls.retain(|_, known| !known.is_gone());
            // Doubled, so that sweeping costs each call the same.
            self.sweep_at = (self.calls.len() * 2).max(SWEEP_LEAST);
        }
        self.calls.insert(name, known);
    }
}

impl Known {
    fn is_gone(&self) -> bool {
        matches!(&self.state, State::Started { task, .. } if task.is_gone())
    }
}

fn reused() -> ErrorData {
    let message = format!("{META_KEY} was used for another call");
    ErrorData::invalid_params(message, None)
}

/// The turn of the call that is first under its key. When it is dropped, those that wait go on:
/// to the task, if one was started, even if the call itself broke off.
pub(super) struct Turn {
    idempotency: Arc<Idempotency>,
    name: Arc<Name>,
    fingerprint: Fingerprint,
    scope: CallScope,
    outcome: Option<(TaskHandle, Option<Arc<str>>)>,
    /// Gone last, and with it the waiting of others.
    _done: watch::Sender<()>,
}

impl Turn {
    /// Says which task the call has started, and the `taskId` that is announced.
    pub(super) fn started(mut self, task: &TaskHandle, task_id: Option<Arc<str>>) {
        self.outcome = Some((task.clone(), task_id));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let broken_off = || Some((self.scope.started().pop()?, None));
        let started = self.outcome.take().or_else(broken_off);
        let mut calls = self.idempotency.lock();
        match started {
            Some((task, task_id)) => {
                let state = State::Started {
                    task: task.downgrade(),
                    task_id,
                };
                calls.insert(
                    Arc::clone(&self.name),
                    Known {
                        fingerprint: self.fingerprint,
                        state,
                    },
                );
            }
            None => {
                calls.calls.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
