mod authority;
mod call;
mod delegation;
mod fingerprint;
mod handles;
mod idempotency;
mod lifetime;
mod mapping;
mod poll_interval;
mod requests;
mod settings;
mod status_message;

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, ServerCapabilities, TASKS_EXTENSION_ID};
use rvc_tasks::TaskManager;

use self::authority::Authority;
pub use self::authority::{Access, AccessKind, Principal};
pub(crate) use self::call::note_started;
use self::handles::Handles;
use self::idempotency::Idempotency;
pub use self::lifetime::HandleLimits;
pub use self::settings::ToolTasks;

/// A server with the official MCP Tasks extension on top of the contract: the same tools and the
/// same tasks, for both kinds of client.
///
/// It wraps a handler and its task manager. A client that declares
/// `io.modelcontextprotocol/tasks` gets a task handle from a tool that answers with
/// [`started`](crate::started), and drives it with `tasks/get`, `tasks/update` and
/// `tasks/cancel`; any other client gets the `TaskInfo` JSON, as it does without the wrapper.
/// Everything else answers exactly as the wrapped handler does.
///
/// What it knows of the handles lives beside the manager, so wrappers of the same manager share
/// it: one may be made for each session.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use rvc_mcp::{TaskServer, ToolTasks};
/// # use rvc_tasks::{NoSink, TaskManager};
/// # #[derive(Clone)]
/// # struct Robot;
/// # impl rmcp::ServerHandler for Robot {}
/// # fn example(robot: Robot, manager: TaskManager) {
///
/// let server = TaskServer::new(robot, &manager)
///     .tool("calibrate", ToolTasks::new().required())
///     .tool("patrol", ToolTasks::new().poll_interval(Duration::from_secs(10)));
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct TaskServer<H> {
    handler: H,
    manager: TaskManager,
    tools: Arc<HashMap<String, ToolTasks>>,
    authority: Authority,
    limits: HandleLimits,
    handles: Arc<Handles>,
    idempotency: Arc<Idempotency>,
}

impl<H> TaskServer<H> {
    /// Adds the extension to a handler whose tools start their tasks with `manager`.
    pub fn new(handler: H, manager: &TaskManager) -> Self {
        Self {
            handler,
            manager: manager.clone(),
            tools: Arc::default(),
            authority: Authority::default(),
            limits: HandleLimits::default(),
            handles: manager.companion(),
            idempotency: manager.companion(),
        }
    }

    /// How the tasks of one tool are handed out; [`ToolTasks::new`] for a tool that is not
    /// named.
    pub fn tool(mut self, name: impl Into<String>, tasks: ToolTasks) -> Self {
        Arc::make_mut(&mut self.tools).insert(name.into(), tasks);
        self
    }

    /// Says on whose behalf each request is made, or refuses it.
    ///
    /// The hook sees every `tasks/*` request, and every `tools/call` that may lead to a handle,
    /// before the tool is called. A handle belongs to the principal that made the call; to any
    /// other it does not exist. Without a hook there is one principal, and who knows a `taskId`
    /// (122 random bits) may use it: right for stdio, and for HTTP without users.
    ///
    /// # Examples
    ///
    /// ```
    /// use rmcp::ErrorData;
    /// use rvc_mcp::{Access, Principal, TaskServer};
    /// # use rvc_tasks::TaskManager;
    /// # #[derive(Clone)]
    /// # struct Robot;
    /// # impl rmcp::ServerHandler for Robot {}
    /// # fn example(robot: Robot, manager: &TaskManager) {
    ///
    /// // Behind a proxy that has checked who it is.
    /// let server = TaskServer::new(robot, manager).authority(|access: &Access<'_>| {
    ///     let user = access.http().and_then(|parts| parts.headers.get("x-user"));
    ///     match user.and_then(|user| user.to_str().ok()) {
    ///         Some(user) => Ok(Principal::new(user)),
    ///         None => Err(ErrorData::invalid_request("who is it?", None)),
    ///     }
    /// });
    /// # }
    /// ```
    pub fn authority(
        mut self,
        hook: impl Fn(&Access<'_>) -> Result<Principal, ErrorData> + Send + Sync + 'static,
    ) -> Self {
        self.authority = Authority::new(hook);
        self
    }

    /// How much is kept for handles.
    pub const fn limits(mut self, limits: HandleLimits) -> Self {
        self.limits = limits;
        self
    }
}

/// Says in a server's capabilities that it has the extension.
fn advertise(capabilities: &mut ServerCapabilities) {
    let advertised = ServerCapabilities::builder().enable_tasks().build();
    if let Some(mut extensions) = advertised.extensions {
        let ours = extensions.remove(TASKS_EXTENSION_ID).unwrap_or_default();
        capabilities
            .extensions
            .get_or_insert_default()
            .entry(TASKS_EXTENSION_ID.to_owned())
            .or_insert(ours);
    }
}

/// The answer to a client that has not declared the extension and would need it.
fn undeclared() -> ErrorData {
    let required = ClientCapabilities::builder().enable_tasks().build();
    ErrorData::missing_required_client_capability(required)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertising_keeps_what_a_handler_says_itself() {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        advertise(&mut capabilities);
        assert!(capabilities.supports_tasks());
        assert!(capabilities.tools.is_some());
        let once = capabilities.clone();
        advertise(&mut capabilities);
        assert_eq!(capabilities, once);
    }
}
