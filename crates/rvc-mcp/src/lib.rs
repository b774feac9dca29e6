//! Serves long-running tasks over MCP, for any rmcp server.
//!
//! ```text
//! stdio · streamable HTTP /mcp · HTTP+SSE /sse ─► rmcp ─► your tools ──────► TaskManager ─► events
//!                                                    └──► get_task, cancel_task, list_tasks ─┘
//! ```
//!
//! A tool starts its task and answers with [`started`] at once. [`task_tools`] adds the three
//! tools with which a caller polls and cancels. [`serve`] runs the server on the transport that
//! the environment names, and ends it in order.
//!
//! # Examples
//!
//! A whole server:
//!
//! ```no_run
//! use rmcp::handler::server::tool::ToolRouter;
//! use rmcp::model::CallToolResult;
//! use rmcp::{ServerHandler, tool, tool_handler, tool_router};
//! use rvc_mcp::{CallContext, ServeConfig, refused, serve, started, task_tools};
//! use rvc_tasks::{EventPoster, Map, ServerName, TaskManager, TaskSpec};
//!
//! #[derive(Clone)]
//! struct Waver {
//!     manager: TaskManager,
//!     tools: ToolRouter<Self>,
//! }
//!
//! #[tool_router]
//! impl Waver {
//!     #[tool(description = "Starts to wave. Returns a task_id at once.")]
//!     async fn wave(&self, call: CallContext) -> CallToolResult {
//!         let spec = TaskSpec::new("wave").log_context(call.into());
//!         match self.manager.start(spec, async |_task| Ok(Map::new())) {
//!             Ok(info) => started(info),
//!             Err(error) => refused(&error),
//!         }
//!     }
//! }
//!
//! #[tool_handler(router = self.tools)]
//! impl ServerHandler for Waver {}
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server: ServerName = "waver".parse()?;
//!     let manager = TaskManager::new(server.clone(), EventPoster::from_env(server)?);
//!     let waver = Waver {
//!         tools: Waver::tool_router() + task_tools(manager.clone()),
//!         manager: manager.clone(),
//!     };
//!     serve(ServeConfig::from_env()?, move || waver.clone(), manager).await?;
//!     Ok(())
//! }
//! ```
//!
//! # Guarantees
//!
//! - Arguments reach a tool with their keys in the order in which they were sent, and their
//!   numbers to the last bit, on every transport.
//! - A client that hangs up changes nothing about a task, not even while it cancels one.
//! - `cancel_task` answers only when the body has stopped or its grace is over, and says which.
//! - Over HTTP, only requests whose `Host` and `Origin` name an allowed host are answered; see
//!   [`ServeConfig`]. Bodies over 4 MiB are refused with 413.
//! - A client that does not read its stream cannot make the server grow: a session owes at most
//!   256 answers, and ends when its queue stands still for a minute.
//! - A server ends within the manager's own closing time plus ten seconds, whatever its clients
//!   do. Answers in flight have five of these to go out.
//! - Standard output carries MCP and nothing else.
//!
//! # Cancel safety
//!
//! Dropping [`serve`] or [`Server::run`] ends all connections at once and leaves the task manager
//! as it is.
//!
//! # Crate features
//!
//! - `logging`: the module `logging`, which sets up log lines for binaries.

mod access;
mod answer;
mod call_context;
mod config;
#[cfg(feature = "logging")]
pub mod logging;
mod server;
mod sse;
mod streamable;
mod tools;

pub use crate::answer::{refused, started};
pub use crate::call_context::CallContext;
pub use crate::config::{ConfigError, ServeConfig, Transport};
pub use crate::server::{ServeError, Server, serve};
pub use crate::tools::task_tools;
