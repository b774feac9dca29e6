//! The questions that a body has asked and the answers on their way to it.
//!
//! They have a lock of their own, which is never held while another is taken. A seal does not
//! close them: an asking body waits for the seal too, and whoever looks at them from outside
//! looks at the stage first.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use rvc_wire::Map;
use serde_json::Value;
use tokio::sync::oneshot;

use super::Record;
use crate::lifecycle::Stage;
use crate::question::{Answered, BadAnswer, Check, OpenQuestion};

/// What a task's questions stand at.
#[derive(Default)]
pub(crate) struct Questions {
    /// Whether the caller has a way to answer.
    answerable: bool,
    /// Every key that was ever used.
    used: HashSet<String>,
    /// In the order in which they were asked.
    open: Vec<Open>,
}

struct Open {
    key: String,
    request: Map,
    check: Check,
    answer: oneshot::Sender<Value>,
}

/// Why a question could not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskRefusal {
    Unanswerable,
    KeyUsed,
}

impl Questions {
    pub(crate) fn new(answerable: bool) -> Self {
        Self {
            answerable,
            ..Self::default()
        }
    }

    fn ask(
        &mut self,
        key: &str,
        request: Map,
        check: Check,
    ) -> Result<oneshot::Receiver<Value>, AskRefusal> {
        if !self.answerable {
            return Err(AskRefusal::Unanswerable);
        }
        if !self.used.insert(key.to_owned()) {
            return Err(AskRefusal::KeyUsed);
        }
        let (answer, answered) = oneshot::channel();
        self.open.push(Open {
            key: key.to_owned(),
            request,
            check,
            answer,
        });
        Ok(answered)
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.open.iter().position(|open| open.key == key)
    }
}

impl Record {
    /// Whether questions can be answered, from now on. Those that wait are withdrawn if not.
    pub(crate) fn set_answerable(&self, answerable: bool) {
        let withdrawn = {
            let mut questions = self.questions();
            questions.answerable = answerable;
            if answerable {
                Vec::new()
            } else {
                std::mem::take(&mut questions.open)
            }
        };
        // Outside the lock: it wakes the body.
        drop(withdrawn);
    }

    /// Whether a question can be answered.
    pub(crate) fn is_answerable(&self) -> bool {
        self.questions().answerable
    }

    pub(crate) fn ask(
        self: &Arc<Self>,
        key: &str,
        request: Map,
        check: Check,
    ) -> Result<(oneshot::Receiver<Value>, Withdrawal), AskRefusal> {
        let answered = self.questions().ask(key, request, check)?;
        self.touch();
        let withdrawal = Withdrawal {
            record: Arc::clone(self),
            key: key.to_owned(),
        };
        Ok((answered, withdrawal))
    }

    /// The questions that wait for an answer, in the order in which they were asked.
    pub(crate) fn open_questions(&self) -> Vec<OpenQuestion> {
        if !self.is_running() {
            return Vec::new();
        }
        let questions = self.questions();
        let open = questions.open.iter();
        open.map(|open| OpenQuestion {
            key: open.key.clone(),
            request: open.request.clone(),
        })
        .collect()
    }

    /// Checks an answer without giving it.
    pub(crate) fn check_answer(&self, key: &str, answer: &Value) -> Result<(), BadAnswer> {
        let check = {
            let questions = self.questions();
            let index = questions.position(key);
            index.map(|index| Arc::clone(&questions.open[index].check))
        };
        match check {
            // Outside the lock: others wrote it.
            Some(check) => check(answer).map_err(|reason| BadAnswer {
                key: key.to_owned(),
                reason,
            }),
            None => Ok(()),
        }
    }

    /// Gives an answer to the body, if its question waits.
    pub(crate) fn answer(&self, key: &str, answer: Value) -> Result<Answered, BadAnswer> {
        if !self.is_running() {
            return Ok(Answered::NotAsked);
        }
        self.check_answer(key, &answer)?;
        let open = {
            let mut questions = self.questions();
            let index = questions.position(key);
            index.map(|index| questions.open.remove(index))
        };
        let given = open.is_some_and(|open| open.answer.send(answer).is_ok());
        if given {
            self.touch();
            Ok(Answered::Taken)
        } else {
            Ok(Answered::NotAsked)
        }
    }

    fn withdraw(&self, key: &str) {
        let withdrawn = {
            let mut questions = self.questions();
            let index = questions.position(key);
            index.map(|index| questions.open.remove(index))
        };
        if withdrawn.is_some() {
            self.touch();
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.lock().stage, Stage::Running)
    }

    /// Something that a poll sees has changed.
    fn touch(&self) {
        let mut ledger = self.lock();
        if matches!(ledger.stage, Stage::Running) {
            ledger.updated_at = self.now(&ledger);
        }
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        // Nothing that others wrote runs under the lock.
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a question back when the body does not wait for it any more.
pub(crate) struct Withdrawal {
    record: Arc<Record>,
    key: String,
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        self.record.withdraw(&self.key);
    }
}
