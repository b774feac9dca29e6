use serde::de::DeserializeOwned;

use crate::failures::INTERNAL;
use crate::record::AskRefusal;
use crate::{Question, TaskContext, TaskError};

/// The code of a question that the caller has no way to answer.
const INPUT_UNSUPPORTED: &str = "INPUT_UNSUPPORTED";

impl TaskContext {
    /// Asks the user, and waits for the answer: "the door is closed: wait, detour or give up?"
    ///
    /// Several questions can wait at once. A key is used once in a task's lifetime. The wait has
    /// no end of its own; `tokio::time::timeout` gives it one.
    ///
    /// # Errors
    ///
    /// - Cancelled, or past the deadline, before or while it waits: the body is to stop.
    /// - `INPUT_UNSUPPORTED`, at once, when the caller has no way to answer: it is on the
    ///   contract alone, or cannot show forms. A question with a default
    ///   ([`Question::or`]) is answered with that instead.
    /// - `INTERNAL` when the key was used before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the question; its key stays used. An answer that has come
    /// is kept until the future is polled, and is lost if it is dropped instead.
    pub async fn ask<A>(&self, key: &str, question: Question<A>) -> Result<A, TaskError>
    where
        A: DeserializeOwned,
    {
        self.check_cancelled()?;
        let (request, check, default) = question.into_parts();
        let record = self.record();
        let (answered, withdrawal) = match record.ask(key, request, check) {
            Ok(asked) => asked,
            Err(AskRefusal::Unanswerable) => return default.ok_or_else(unsupported),
            Err(AskRefusal::KeyUsed) => return Err(key_used(key)),
        };
        let answer = tokio::select! {
            biased;
            () = record.sealed() => None,
            answer = answered => answer.ok(),
        };
        drop(withdrawal);
        self.check_cancelled()?;
        match answer {
            Some(answer) => Ok(serde_json::from_value(answer)?),
            // Withdrawn: it turned out that nobody can answer.
            None => default.ok_or_else(unsupported),
        }
    }
}

fn unsupported() -> TaskError {
    TaskError::new(
        INPUT_UNSUPPORTED,
        "The task needs an answer from the user, and this caller has no way to pass one on.",
    )
}

fn key_used(key: &str) -> TaskError {
    let message = format!("the task has asked under the key {key:?} before");
    TaskError::new(INTERNAL, message).recoverable(false)
}
