//! Remote tasks whose outcome survives any crash: one action, one outcome.
//!
//! ```text
//! host:    Run ── Action                     authoritative, also for cancellation
//!                  │ 0..1
//! here:         Linkage (one row)            what is known of the remote task
//!                  │ 1
//! server:      MCP task, contract task       authoritative for its own state only
//!
//! intent ─► sending ─► working ⇄ input_required ─► accepted ─► completed | failed | cancelled
//!                                                              | expired | unknown
//! ```
//!
//! A host calls a tool of a remote MCP server. The call may outlive the request, the connection
//! and the host's own process. [`Durable::submit`] makes the wish durable; a supervisor, in this
//! process or in another one on the same database, drives it to its one [`Outcome`].
//!
//! # Examples
//!
//! ```
//! use rvc_durable::remote::HttpDialer;
//! use rvc_durable::store::SqliteStore;
//! use rvc_durable::{Durable, OwnerId, Registration, Submission, SupervisorOptions, TransportKind};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("durable.db");
//! let store = SqliteStore::open(&path)?;
//! let durable = Durable::new(store, HttpDialer::new()?, SupervisorOptions::new());
//! durable
//!     .put_registration(Registration {
//!         id: "robot".parse()?,
//!         owner: OwnerId::local(),
//!         endpoint: "http://127.0.0.1:9100/mcp".parse()?,
//!         transport: TransportKind::StreamableHttp,
//!         enabled: true,
//!     })
//!     .await?;
//!
//! let submission = Submission::new("action-1".parse()?, "robot".parse()?, "navigate_to");
//! let row = durable.submit(submission).await?; // durable from here on
//! assert_eq!(row.phase.as_str(), "intent");
//!
//! durable.supervise(); // here, or in another process
//! # if false {
//! let outcome = durable.outcome(&row.action).await?; // also after a restart
//! println!("{}: {:?}", outcome.phase, outcome.error_code);
//! # }
//! durable.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! With the ledger, on storage that keeps what it acknowledged:
//!
//! 1. *One outcome.* Every action that was submitted has exactly one outcome, which never
//!    changes, as long as some process supervises. The outcome and the action's state commit
//!    together. An action whose server never comes back, that has no deadline, and whose task
//!    has no known time to live, waits for ever.
//! 2. *At most one start* under [`StartPolicy::AtMostOnce`]: the request is written to a socket
//!    at most once, whatever crashes and whatever is answered. Whether the server ran the tool
//!    once is the server's to say; when the answer is lost, the outcome is
//!    `START_OUTCOME_UNKNOWN` and not a guess, and a start that is refused for its token (401)
//!    has failed. Under the other two policies the start is repeated.
//! 3. *No success without a result.* Nothing but a tool result that is no error becomes
//!    `completed`: not `completed` alone, not an expired task, not another task's answer.
//! 4. *A cancel is final when it returns.* No result is delivered after it. The server is asked
//!    to cancel, a bounded number of times, across restarts, also when the handle arrives late.
//!    Whether the remote work stops is the server's to say; where nobody will see it, an ERROR
//!    names it. The same holds for what a deadline or a revoked registration leaves running. A
//!    task that may still run is cancelled also where its server's answers cannot be read.
//! 5. *A stale worker changes nothing.* Every write compares owner, fence and phase.
//! 6. *Nothing secret is stored.* URLs with credentials are refused; tokens are asked for when a
//!    connection is opened and before each start, and no owner's call goes out with another
//!    owner's token. Arguments and results are stored as they are.
//!
//! With a foreign host ([`ForeignHost`]) the outcome is delivered at least once, keyed by
//! action, and a cancel that the host commits while a delivery is under way may be overtaken.
//!
//! Not covered: a disk that lies, a clock that is ahead when an execution deadline is set and
//! corrected later, two databases for one action.
//!
//! # Cancel safety
//!
//! Every method says what dropping it leaves behind. Dropping the last [`Durable`] stops in the
//! middle of steps, as a crash does, and is as safe.
//!
//! # Crate features
//!
//! - `sqlite` (default): the embedded store.
//! - `postgres`: the store on a `PostgreSQL` server, for several replicas.

// For what unit tests and black-box tests share.
#[cfg(test)]
extern crate self as rvc_durable;

mod durable;
mod envelope;
mod error_code;
mod host;
mod linkage;
mod log;
mod moment;
mod name;
mod outcome;
mod phase;
pub mod plan;
mod policy;
mod registration;
pub mod remote;
pub mod store;
mod submission;
mod supervisor;
mod tls;
mod view;

pub use crate::durable::{Durable, OutcomeError, SubmitError};
pub use crate::envelope::ToolResultEnvelope;
pub use crate::error_code::ErrorCode;
pub use crate::host::{Delivery, ForeignHost, HostError};
pub use crate::linkage::{CleanUp, Fence, HostKind, Linkage, RemoteKind, RemoteTask, Trouble};
pub use crate::moment::Moment;
pub use crate::name::{ActionId, NameError, OwnerId, RegistrationId, RunId};
pub use crate::outcome::Outcome;
pub use crate::phase::{ActionState, Phase, UnknownWord};
pub use crate::policy::StartPolicy;
pub use crate::registration::{Access, Endpoint, EndpointError, Registration, TransportKind};
pub use crate::submission::{InputHandling, Submission};
pub use crate::supervisor::{Checkpoint, DurableStep, SupervisorOptions, Update};
pub use crate::view::ActionView;
