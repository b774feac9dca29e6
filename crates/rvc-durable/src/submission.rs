//! What a host asks for.

use std::time::Duration;

use rvc_wire::Map;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::name::{ActionId, OwnerId, RegistrationId, RunId};
use crate::policy::StartPolicy;

/// What becomes of a remote task that asks for input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InputHandling {
    /// Nobody can answer: the action fails with `INPUT_UNSUPPORTED`.
    #[default]
    Unsupported,
    /// The requests are stored and shown to the host, and an answer is awaited.
    Surface,
}

/// One tool call that a host wants done, once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Submission {
    /// The host's action; the key of everything.
    pub action: ActionId,
    /// The run it belongs to.
    pub run: RunId,
    /// Who owns the run.
    pub owner: OwnerId,
    /// The server.
    pub registration: RegistrationId,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map,
    /// What to do when the answer to the start is lost.
    pub policy: StartPolicy,
    /// What to do when the remote task asks for input.
    pub input: InputHandling,
    /// How long the host gives the action, from now on.
    pub execution_deadline: Option<Duration>,
    /// How long a remote task is taken to be kept when the server sets no limit.
    pub remote_task_ttl: Option<Duration>,
    /// The language model's id of the call, for the logs.
    pub tool_call_id: Option<String>,
    /// The language model's provider, for the logs.
    pub provider: Option<String>,
}

impl Submission {
    /// A call of `tool`, at most once, for the local owner. The run is named after the action.
    #[must_use]
    pub fn new(action: ActionId, registration: RegistrationId, tool: impl Into<String>) -> Self {
        let run = RunId::try_from(action.as_str().to_owned()).expect("an id is an id");
        Self {
            action,
            run,
            owner: OwnerId::local(),
            registration,
            tool: tool.into(),
            arguments: Map::new(),
            policy: StartPolicy::default(),
            input: InputHandling::default(),
            execution_deadline: None,
            remote_task_ttl: None,
            tool_call_id: None,
            provider: None,
        }
    }

    /// Sets the run.
    #[must_use]
    pub fn run(mut self, run: RunId) -> Self {
        self.run = run;
        self
    }

    /// Sets the owner.
    #[must_use]
    pub fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    /// Sets the arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: Map) -> Self {
        self.arguments = arguments;
        self
    }

    /// Sets the start policy.
    #[must_use]
    pub fn policy(mut self, policy: StartPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets what becomes of a request for input.
    #[must_use]
    pub fn input(mut self, input: InputHandling) -> Self {
        self.input = input;
        self
    }

    /// Sets the host's deadline, counted from the submission.
    #[must_use]
    pub fn execution_deadline(mut self, deadline: Duration) -> Self {
        self.execution_deadline = Some(deadline);
        self
    }

    /// Sets the time to live that is assumed when the server sets none.
    #[must_use]
    pub fn remote_task_ttl(mut self, ttl: Duration) -> Self {
        self.remote_task_ttl = Some(ttl);
        self
    }

    /// Sets the language model's id of the call.
    #[must_use]
    pub fn tool_call_id(mut self, id: impl Into<String>) -> Self {
        self.tool_call_id = Some(id.into());
        self
    }

    /// Sets the language model's provider.
    #[must_use]
    pub fn provider(mut self, provider: impl Into<String>) -> Self {
        self.provider = Some(provider.into());
        self
    }

    /// A hash of what is asked for: run, owner, registration, tool and arguments, whatever the
    /// order of their keys. The same action with another hash is another request.
    #[must_use]
    pub fn request_hash(&self) -> String {
        let mut hash = Sha256::new();
        for part in [
            self.run.as_str(),
            self.owner.as_str(),
            self.registration.as_str(),
            self.tool.as_str(),
            self.policy.as_str(),
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(canonical(&Value::Object(self.arguments.clone())));
        hex(&hash.finalize())
    }
}

/// The JSON of a value with the keys of every object sorted.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

/// Lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(arguments: Value) -> String {
        let Value::Object(arguments) = arguments else {
            panic!("not an object")
        };
        Submission::new(
            "a".parse().expect("an id"),
            "r".parse().expect("an id"),
            "tool",
        )
        .arguments(arguments)
        .request_hash()
    }

    #[test]
    fn the_hash_sees_values_and_not_the_order_of_keys() {
        let one = with(json!({"a": 1, "b": {"c": [1, 2], "d": "x"}}));

        assert_eq!(one, with(json!({"b": {"d": "x", "c": [1, 2]}, "a": 1})));
        assert_ne!(one, with(json!({"a": 1, "b": {"c": [2, 1], "d": "x"}})));
        assert_ne!(one, with(json!({"a": "1", "b": {"c": [1, 2], "d": "x"}})));
    }
}
