//! Remote tasks whose outcome survives any crash: one action, one outcome.

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
mod submission;
mod supervisor;

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
pub mod remote;
pub mod store;
pub use crate::supervisor::{Checkpoint, DurableStep, SupervisorOptions, Update};
