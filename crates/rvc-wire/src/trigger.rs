use alloc::string::ToString;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::Map;

/// A condition that a caller attached to a task: an object with a text `type`, all else opaque.
///
/// It is written back exactly as it came: same keys, same order, same numbers (contract section
/// 3.2, decision 6).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(extend(
        "type" = "object",
        "properties" = {
            "type": {"type": "string", "description": "What kind of condition it is."},
            "repeat": {"type": "boolean", "description": "Fire every time, not just once."}
        },
        "required" = ["type"]
    ))
)]
#[serde(transparent)]
pub struct Trigger(Map);

impl Trigger {
    /// The text under `type`: `eta_below`, `zone_entered`, `progress_above`, …
    #[must_use]
    pub fn kind(&self) -> &str {
        self.get("type")
            .and_then(Value::as_str)
            .expect("the constructor checked `type`")
    }

    /// Whether it carries `"repeat": true` and may fire more than once.
    #[must_use]
    pub fn repeats(&self) -> bool {
        self.get("repeat") == Some(&Value::Bool(true))
    }

    /// The value under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The object as it came.
    #[must_use]
    pub const fn as_map(&self) -> &Map {
        &self.0
    }
}

impl TryFrom<Map> for Trigger {
    type Error = TriggerError;

    fn try_from(map: Map) -> Result<Self, TriggerError> {
        match map.get("type") {
            Some(Value::String(_)) => Ok(Self(map)),
            Some(_) => Err(TriggerError::TypeIsNoText),
            None => Err(TriggerError::NoType),
        }
    }
}

impl<'de> Deserialize<'de> for Trigger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer)?
            .try_into()
            .map_err(|error: TriggerError| serde::de::Error::custom(error.to_string()))
    }
}

/// Why an object is no trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TriggerError {
    /// It has no `type`.
    #[error("trigger has no `type`")]
    NoType,

    /// Its `type` is not a text.
    #[error("trigger has a `type` that is no text")]
    TypeIsNoText,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_written_back_as_it_came() {
        for text in [
            r#"{"type":"eta_below","seconds":10}"#,
            r#"{"zone":"b","type":"zone_entered","a":{"z":1,"y":[1.0,1e-9]},"repeat":true}"#,
            r#"{"seconds":10.0,"n":9007199254740993,"type":"eta_below","f":0.1}"#,
        ] {
            let trigger: Trigger = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&trigger).unwrap(), text);
        }
    }

    #[test]
    fn an_object_without_a_text_type_is_refused() {
        for bad in [
            r"{}",
            r#"{"type":1}"#,
            r#"{"type":null}"#,
            r#"["type"]"#,
            r#""eta""#,
        ] {
            assert!(serde_json::from_str::<Trigger>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_repeat_true_repeats() {
        for (text, repeats) in [
            (r#"{"type":"t","repeat":true}"#, true),
            (r#"{"type":"t","repeat":false}"#, false),
            (r#"{"type":"t","repeat":"true"}"#, false),
            (r#"{"type":"t","repeat":1}"#, false),
            (r#"{"type":"t"}"#, false),
        ] {
            assert_eq!(
                serde_json::from_str::<Trigger>(text).unwrap().repeats(),
                repeats
            );
        }
    }
}
