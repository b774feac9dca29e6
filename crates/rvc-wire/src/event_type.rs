use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an event reports (contract section 3.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventType {
    /// The latest reported amount, free-form.
    Progress,
    /// A trigger's condition came true.
    TriggerFired,
    /// The task succeeded; the payload has its result.
    TaskDone,
    /// The task failed; the payload is a [`TaskFailure`](crate::TaskFailure).
    TaskFailed,
    /// What a long-lived watcher saw, free-form.
    WatchEvent,
    /// A type of a newer schema, kept so that a receiver can acknowledge it (decision 4).
    Unknown(Box<str>),
}

impl EventType {
    /// The types that this version knows.
    pub const KNOWN: [Self; 5] = [
        Self::Progress,
        Self::TriggerFired,
        Self::TaskDone,
        Self::TaskFailed,
        Self::WatchEvent,
    ];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Progress => "progress",
            Self::TriggerFired => "trigger_fired",
            Self::TaskDone => "task_done",
            Self::TaskFailed => "task_failed",
            Self::WatchEvent => "watch_event",
            Self::Unknown(name) => name,
        }
    }

    /// Whether it is a task's last event.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::TaskDone | Self::TaskFailed)
    }

    fn from_name(name: &str) -> Self {
        Self::KNOWN
            .into_iter()
            .find(|known| known.as_str() == name)
            .unwrap_or_else(|| Self::Unknown(name.into()))
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for EventType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer).map(|name| Self::from_name(&name))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for EventType {
    fn schema_name() -> Cow<'static, str> {
        "EventType".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let known = Self::KNOWN.map(|known| serde_json::Value::from(known.as_str()));
        schemars::json_schema!({
            "description": "What an event reports. Other values come from newer servers.",
            "type": "string",
            "examples": known.to_vec(),
        })
    }
}
