use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use rvc_wire::Map;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a body asks the user amid its work; the answer is an `A`.
///
/// It is opaque here: what it looks like is agreed between who makes it and the surface that
/// shows it, such as `rvc_mcp::form`. See [`TaskContext::ask`](crate::TaskContext::ask).
#[must_use]
pub struct Question<A = Value> {
    request: Map,
    check: Check,
    default: Option<A>,
    answer: PhantomData<fn() -> A>,
}

/// Says what is wrong with an answer.
pub(crate) type Check = Arc<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

impl<A: DeserializeOwned> Question<A> {
    /// A question whose answer is any JSON that reads as an `A`.
    pub fn new(request: Map) -> Self {
        Self::with_check(request, |_| Ok(()))
    }

    /// A question whose answer must also pass a check. An answer that does not is refused, with
    /// what the check says, and the question stays open.
    pub fn with_check(
        request: Map,
        check: impl Fn(&A) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let check = move |answer: &Value| {
            let answer = A::deserialize(answer).map_err(|error| error.to_string())?;
            check(&answer)
        };
        Self {
            request,
            check: Arc::new(check),
            default: None,
            answer: PhantomData,
        }
    }

    /// The answer to take when the caller has no way to give one: it is on the contract alone.
    pub fn or(mut self, default: A) -> Self {
        self.default = Some(default);
        self
    }

    pub(crate) fn into_parts(self) -> (Map, Check, Option<A>) {
        (self.request, self.check, self.default)
    }
}

impl<A> fmt::Debug for Question<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenQuestion {
    /// The name that the body gave it. A task never uses one twice.
    pub key: String,
    /// What is asked.
    pub request: Map,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The body has it.
    Taken,
    /// No question of that key waits: it was never asked, was answered or withdrawn, or the
    /// task does not run any more.
    NotAsked,
}

/// Why an answer was refused; its question stays open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer to {key:?} has the wrong shape: {reason}")]
#[non_exhaustive]
pub struct BadAnswer {
    /// The question's key.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}
