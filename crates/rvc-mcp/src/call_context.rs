//! What a call says about where it comes from.

use rmcp::handler::server::common::{AsRequestContext, FromContextPart};
use rmcp::model::MetaObject;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use rvc_tasks::LogContext;
use serde_json::Value;

/// The correlation ids in a call's `_meta`. Contract decision 29.
///
/// With a [`TaskServer`](crate::TaskServer) the task that a call starts carries them by itself, in
/// its span and its events' log lines. Without one, and for a task that is started from another
/// tokio task, a tool takes this as a parameter and hands it to its task.
///
/// Ids that are absent, empty, or neither text nor number are left out: they are a help for the
/// reader of a log and never a reason to refuse a call.
///
/// # Examples
///
/// ```
/// use rmcp::model::CallToolResult;
/// use rvc_mcp::{CallContext, refused, started};
/// use rvc_tasks::{Map, TaskManager, TaskSpec};
///
/// struct Robot {
///     manager: TaskManager,
/// }
///
/// #[rmcp::tool_router]
/// impl Robot {
///     #[rmcp::tool(description = "Waves. Returns a task_id at once.")]
///     async fn wave(&self, call: CallContext) -> CallToolResult {
///         let spec = TaskSpec::new("wave").log_context(call.into());
///         match self.manager.start(spec, async |_task| Ok(Map::new())) {
///             Ok(info) => started(info),
///             Err(error) => refused(&error),
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallContext {
    /// The W3C trace that the call is part of.
    pub traceparent: Option<String>,
    /// The caller's request.
    pub request_id: Option<String>,
    /// The turn of the caller's conversation.
    pub turn_id: Option<String>,
    /// The caller's mission.
    pub mission_id: Option<String>,
}

impl CallContext {
    /// Reads a call's `_meta`.
    #[must_use]
    pub fn from_meta(meta: &MetaObject) -> Self {
        let id = |name: &str| match meta.get(name)? {
            Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Self {
            traceparent: id("traceparent"),
            request_id: id("request_id"),
            turn_id: id("turn_id"),
            mission_id: id("mission_id"),
        }
    }
}

impl From<&RequestContext<RoleServer>> for CallContext {
    fn from(context: &RequestContext<RoleServer>) -> Self {
        Self::from_meta(&context.meta.0)
    }
}

impl<C: AsRequestContext> FromContextPart<C> for CallContext {
    fn from_context_part(context: &mut C) -> Result<Self, ErrorData> {
        Ok(context.as_request_context().into())
    }
}

impl From<CallContext> for LogContext {
    fn from(call: CallContext) -> Self {
        Self {
            traceparent: call.traceparent,
            request_id: call.request_id,
            turn_id: call.turn_id,
            mission_id: call.mission_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(meta: Value) -> CallContext {
        match meta {
            Value::Object(meta) => CallContext::from_meta(&MetaObject(meta)),
            _ => unreachable!("a test passes objects"),
        }
    }

    #[test]
    fn ids_are_read_from_text_and_numbers() {
        let call = read(json!({
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            "request_id": "r-1", "turn_id": 7, "mission_id": " m ", "progressToken": 1,
        }));
        assert_eq!(
            call,
            CallContext {
                traceparent: Some(
                    "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01".to_owned()
                ),
                request_id: Some("r-1".to_owned()),
                turn_id: Some("7".to_owned()),
                mission_id: Some("m".to_owned()),
            }
        );
    }

    #[test]
    fn what_is_no_id_is_left_out() {
        let call = read(json!({
            "traceparent": "", "request_id": null, "turn_id": ["t"], "mission_id": {"id": 1},
        }));
        assert_eq!(call, CallContext::default());
    }
}
