//! Serves long-running tasks over MCP, for any rmcp server, and to both kinds of client.
//!
//! ```text
//! stdio · streamable HTTP /mcp · HTTP+SSE /sse ─► rmcp ─► TaskServer ─► your tools ─► TaskManager ─► events
//!                                                    │                                    ▲
//!                             on the contract alone  ├─► get_task, cancel_task,           │
//!                                                    │   list_tasks, wait_task ───────────┤
//!                    of the official Tasks extension └─► tasks/get, tasks/update,         │
//!                                                        tasks/cancel ────────────────────┘
//! ```
//!
//! A tool starts its task and answers with [`started`] at once. [`task_tools`] adds the tools
//! with which a caller polls, waits and cancels. [`TaskServer`] adds the official MCP Tasks
//! extension (`io.modelcontextprotocol/tasks`) in one line. [`serve`] runs the server on the
//! transport that the environment names, and ends it in order.
//!
//! # Examples
//!
//! A whole server. Its one tool body serves both surfaces: a client that declares the extension
//! gets a task handle, sees the progress as `statusMessage`, and is asked what to do about the
//! door; a deployed brain gets the `TaskInfo` JSON and signed events, and the default answer.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use rmcp::handler::server::tool::ToolRouter;
//! use rmcp::model::{CallToolResult, ElicitResult, ElicitationAction, ElicitationSchema};
//! use rmcp::{ServerHandler, tool, tool_handler, tool_router};
//! use rvc_mcp::{ServeConfig, TaskServer, form, refused, serve, started, task_tools};
//! use rvc_tasks::{EventPoster, ServerName, TaskError, TaskManager, TaskSpec, payload};
//!
//! #[derive(Clone)]
//! struct Driver {
//!     manager: TaskManager,
//!     tools: ToolRouter<Self>,
//! }
//!
//! #[tool_router]
//! impl Driver {
//!     #[tool(description = "Drives to the lab. Returns a task_id at once.")]
//!     async fn drive(&self) -> CallToolResult {
//!         let started_task = self.manager.start(TaskSpec::new("drive"), async |task| {
//!             for eta_s in [2, 1, 0] {
//!                 tokio::time::sleep(Duration::from_secs(1)).await;
//!                 task.progress(payload! { "eta_s": eta_s })?;
//!             }
//!             let wait = ElicitationSchema::builder().required_bool("wait").build_unchecked();
//!             let go_back = ElicitResult::new(ElicitationAction::Decline);
//!             let question = form("The door is closed. Wait for it?", wait).or(go_back);
//!             let answer = task.ask("door", question).await?;
//!             if answer.action != ElicitationAction::Accept {
//!                 return Err(TaskError::new("DOOR_CLOSED", "The door to the lab is closed."));
//!             }
//!             Ok(payload! { "arrived": true })
//!         });
//!         match started_task {
//!             Ok(info) => started(info),
//!             Err(error) => refused(&error),
//!         }
//!     }
//! }
//!
//! #[tool_handler(router = self.tools)]
//! impl ServerHandler for Driver {}
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server: ServerName = "driver".parse()?;
//!     let manager = TaskManager::new(server.clone(), EventPoster::from_env(server)?);
//!     let driver = Driver {
//!         tools: Driver::tool_router() + task_tools(manager.clone()),
//!         manager: manager.clone(),
//!     };
//!     let driver = TaskServer::new(driver, &manager);
//!     serve(ServeConfig::from_env()?, move || driver.clone(), manager).await?;
//!     Ok(())
//! }
//! ```
//!
//! # The official Tasks extension
//!
//! | contract | extension |
//! |---|---|
//! | `running` | `working`; `input_required` while the body asks ([`TaskContext::ask`](rvc_tasks::TaskContext::ask)) |
//! | `running`, `cancel_requested` | `working`, and the `statusMessage` says so |
//! | `succeeded` | `completed`, with the result as structured content and text |
//! | `failed`, panics too | `completed` with `isError: true`, with the failure as structured content and text |
//! | `failed` by [`protocol_error`] | `failed`, with the JSON-RPC error |
//! | `cancelled` | `cancelled`; the `statusMessage` says if the body did not stop |
//! | progress | `statusMessage`, such as `60 % done, 22 s left`, and `pollIntervalMs` |
//!
//! - Per tool ([`ToolTasks`]): whether the extension is required (`-32021` before the tool is
//!   called), the TTL, the poll interval. [`HandleLimits`] bounds what is kept.
//! - A handle is no `task_id`, and belongs to a [`Principal`] ([`TaskServer::authority`]).
//! - A `tools/call` with `_meta["io.rvc/idempotency-key"]` starts its task once: made again, by
//!   the same principal with the same tool and arguments, it is answered with the task that it
//!   started, for as long as that is kept. With other arguments it is refused.
//! - Clients poll. `notifications/tasks` waits for rmcp, whose subscriptions drop the task ids.
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
//! - A client that takes nothing of its answers for 30 s loses its connection, on both transports.
//!   One that reads slowly keeps it, and its place among the connections.
//! - Bodies run apart ([`TaskManager::run_bodies_apart`](rvc_tasks::TaskManager::run_bodies_apart)):
//!   with all their threads blocked, requests are answered, events leave, and a signal ends the
//!   process. A tool's own call is not a body: what blocks in it blocks the server.
//! - Clients that come back without ever saying goodbye cannot make it grow either. There are at
//!   most 512 connections; others wait until one is closed, as it is after two idle minutes. At
//!   most 256 of them are streams that listen (of HTTP+SSE, its sessions), so that requests find
//!   a connection whoever listens. Streamable HTTP keeps 1,000 sessions, each for an hour after
//!   its last use; newer clients need none. What is over these is refused with 503 and a
//!   reason, and one warning is logged until half is free again.
//! - A `taskId` is found from before it is announced until the `ttlMs` that was announced last,
//!   however many tasks have finished since. A running task is never ended by its TTL, which is
//!   raised instead; one that nobody polled stays readable for a while after its end.
//! - Without the extension declared, and for everything that is not of the extension, a
//!   [`TaskServer`] answers exactly as the handler in it. Only where a tool panics, which would
//!   leave the caller without an answer, does it answer: with an internal error.
//! - Every `tools/call` that a [`TaskServer`] or one of [`task_tools`] answers is logged once,
//!   with its `outcome` and `duration_ms`, in a span with the tool and the ids of its
//!   [`CallContext`]. The tasks that a [`TaskServer`]'s call starts carry these ids too.
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
//! - `server` (default): everything above.
//! - `sse-client`: `SseClient`, the other side of HTTP+SSE, as a client transport for rmcp. It
//!   needs nothing of the server.
//! - `logging`: the module `logging`, which sets up log lines for binaries.

#[cfg(feature = "server")]
mod access;
#[cfg(feature = "server")]
mod answer;
#[cfg(feature = "server")]
mod call_context;
#[cfg(feature = "server")]
mod call_log;
#[cfg(feature = "server")]
mod config;
#[cfg(feature = "server")]
mod form;
#[cfg(feature = "server")]
mod limit;
#[cfg(feature = "logging")]
pub mod logging;
#[cfg(feature = "server")]
mod protocol_error;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod sse;
#[cfg(feature = "sse-client")]
mod sse_client;
#[cfg(feature = "server")]
mod streamable;
#[cfg(feature = "server")]
mod task_server;
#[cfg(feature = "server")]
mod tools;

#[cfg(feature = "server")]
pub use crate::answer::{refused, started};
#[cfg(feature = "server")]
pub use crate::call_context::CallContext;
#[cfg(feature = "server")]
pub use crate::config::{ConfigError, ServeConfig, Transport};
#[cfg(feature = "server")]
pub use crate::form::form;
#[cfg(feature = "server")]
pub use crate::protocol_error::protocol_error;
#[cfg(feature = "server")]
pub use crate::server::{ServeError, Server, serve};
#[cfg(feature = "sse-client")]
pub use crate::sse_client::{
    SseBody, SseClient, SseClientConfig, SseClientError, SseHttp, TOO_LARGE,
};
#[cfg(feature = "server")]
pub use crate::task_server::{Access, AccessKind, HandleLimits, Principal, TaskServer, ToolTasks};
#[cfg(feature = "server")]
pub use crate::tools::task_tools;
