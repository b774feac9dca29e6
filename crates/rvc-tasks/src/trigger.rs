//! Triggers on a task: what is checked when it starts, and the one type the kit evaluates itself.

use std::collections::BTreeSet;

use rvc_wire::Trigger;
use serde_json::Value;

/// The type that every task evaluates by itself on each progress report.
const PROGRESS_ABOVE: &str = "progress_above";

/// A trigger as one task has it: what the caller sent, and its place among the task's triggers.
///
/// # Examples
///
/// ```
/// # use rvc_tasks::{AttachedTrigger, BadTrigger};
/// fn is_due(trigger: &AttachedTrigger, eta_s: f64) -> Result<bool, BadTrigger> {
///     Ok(trigger.kind() == "eta_below" && eta_s < trigger.number("seconds")?)
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AttachedTrigger {
    index: usize,
    trigger: Trigger,
}

impl AttachedTrigger {
    pub(crate) const fn new(index: usize, trigger: Trigger) -> Self {
        Self { index, trigger }
    }

    /// The object as it came.
    #[must_use]
    pub const fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    /// The text under `type`: `eta_below`, `zone_entered`, …
    #[must_use]
    pub fn kind(&self) -> &str {
        self.trigger.kind()
    }

    /// The value under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.trigger.get(key)
    }

    /// The number under `key`.
    ///
    /// # Errors
    ///
    /// [`BadTrigger`] if there is none.
    pub fn number(&self, key: &str) -> Result<f64, BadTrigger> {
        self.field(key, Value::as_f64, "a number")
    }

    /// The text under `key`.
    ///
    /// # Errors
    ///
    /// [`BadTrigger`] if there is none.
    pub fn text(&self, key: &str) -> Result<&str, BadTrigger> {
        self.field(key, Value::as_str, "a text")
    }

    pub(crate) const fn index(&self) -> usize {
        self.index
    }

    fn field<'a, T>(
        &'a self,
        key: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
        expected: &str,
    ) -> Result<T, BadTrigger> {
        self.get(key)
            .and_then(read)
            .ok_or_else(|| BadTrigger::new(self.kind(), format!("`{key}` must be {expected}")))
    }
}

/// A trigger of a known type whose fields are wrong: an error of the tool call (contract
/// decision 23).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad trigger {kind:?}: {reason}")]
pub struct BadTrigger {
    kind: String,
    reason: String,
}

impl BadTrigger {
    /// A trigger of type `kind` is wrong for the given reason.
    #[must_use]
    pub fn new(kind: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            reason: reason.into(),
        }
    }
}

/// Checks one trigger of a type that the tool evaluates.
pub(crate) type Check = Box<dyn Fn(&AttachedTrigger) -> Result<(), BadTrigger> + Send + Sync>;

/// The types that a tool evaluates, each with its check.
#[derive(Default)]
pub(crate) struct Evaluated(Vec<(String, Check)>);

impl Evaluated {
    pub(crate) fn add(&mut self, kind: String, check: Check) {
        self.0.push((kind, check));
    }

    /// Checks what a caller attached, and answers the types that nobody evaluates here.
    pub(crate) fn check<'a>(
        &self,
        triggers: &'a [AttachedTrigger],
    ) -> Result<BTreeSet<&'a str>, BadTrigger> {
        let mut unknown = BTreeSet::new();
        for trigger in triggers {
            let mut checks = self.0.iter().filter(|(kind, _)| kind == trigger.kind());
            let first = checks.next();
            if trigger.kind() == PROGRESS_ABOVE {
                trigger.number("percent")?;
            } else if first.is_none() {
                unknown.insert(trigger.kind());
                continue;
            }
            check_repeat(trigger)?;
            for (_, check) in first.into_iter().chain(checks) {
                check(trigger)?;
            }
        }
        Ok(unknown)
    }
}

/// Anything but `true` would silently mean once.
fn check_repeat(trigger: &AttachedTrigger) -> Result<(), BadTrigger> {
    match trigger.get("repeat") {
        None | Some(Value::Null | Value::Bool(_)) => Ok(()),
        Some(_) => Err(BadTrigger::new(
            trigger.kind(),
            "`repeat` must be true or false",
        )),
    }
}

/// Whether a progress report with this `percent` fires the trigger (contract decision 24).
/// Whether it has fired before is for the task to know.
pub(crate) fn is_crossed(trigger: &AttachedTrigger, percent: f64) -> bool {
    trigger.kind() == PROGRESS_ABOVE
        && trigger
            .number("percent")
            .is_ok_and(|threshold| percent >= threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attached(text: &str) -> AttachedTrigger {
        AttachedTrigger::new(0, serde_json::from_str(text).unwrap())
    }

    fn navigation() -> Evaluated {
        let mut evaluated = Evaluated::default();
        evaluated.add(
            "eta_below".into(),
            Box::new(|trigger| trigger.number("seconds").map(drop)),
        );
        evaluated.add(
            "zone_entered".into(),
            Box::new(|trigger| trigger.text("zone").map(drop)),
        );
        evaluated
    }

    #[test]
    fn known_triggers_with_wrong_fields_are_refused() {
        for (text, error) in [
            (
                r#"{"type":"eta_below"}"#,
                "bad trigger \"eta_below\": `seconds` must be a number",
            ),
            (
                r#"{"type":"eta_below","seconds":"9"}"#,
                "bad trigger \"eta_below\": `seconds` must be a number",
            ),
            (
                r#"{"type":"zone_entered","zone":4}"#,
                "bad trigger \"zone_entered\": `zone` must be a text",
            ),
            (
                r#"{"type":"progress_above"}"#,
                "bad trigger \"progress_above\": `percent` must be a number",
            ),
            (
                r#"{"type":"progress_above","percent":null}"#,
                "bad trigger \"progress_above\": `percent` must be a number",
            ),
            (
                r#"{"type":"progress_above","percent":5,"repeat":"true"}"#,
                "bad trigger \"progress_above\": `repeat` must be true or false",
            ),
        ] {
            let triggers = [attached(text)];
            assert_eq!(
                navigation().check(&triggers).unwrap_err().to_string(),
                error
            );
        }
    }

    #[test]
    fn unknown_types_are_named_once_and_not_looked_into() {
        let triggers = [
            attached(r#"{"type":"person_seen","repeat":"often"}"#),
            attached(r#"{"type":"eta_below","seconds":9,"repeat":null}"#),
            attached(r#"{"type":"person_seen"}"#),
            attached(r#"{"type":"battery_below"}"#),
        ];
        let unknown = navigation().check(&triggers).unwrap();
        assert_eq!(unknown, BTreeSet::from(["battery_below", "person_seen"]));
    }

    #[test]
    fn progress_above_is_crossed_at_its_percent() {
        let trigger = attached(r#"{"type":"progress_above","percent":50}"#);
        for (percent, crossed) in [(49.999, false), (50.0, true), (50.1, true), (-1.0, false)] {
            assert_eq!(is_crossed(&trigger, percent), crossed, "{percent}");
        }
        let other = attached(r#"{"type":"eta_below","percent":0}"#);
        assert!(!is_crossed(&other, 100.0));
    }
}
