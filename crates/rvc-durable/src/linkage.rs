//! The one row that ties an action to its remote task.

use std::fmt;
use std::time::Duration;

use rvc_wire::Map;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::moment::Moment;
use crate::name::{ActionId, OwnerId, RegistrationId, RunId};
use crate::outcome::Outcome;
use crate::phase::{Phase, UnknownWord};
use crate::policy::StartPolicy;
use crate::submission::{InputHandling, Submission, hex};

/// What kind of task the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteKind {
    /// A task of the MCP Tasks extension, followed with `tasks/get`.
    Mcp,
    /// A task of the Async Task Contract, followed with the tool `get_task`.
    Contract,
}

impl RemoteKind {
    /// The kind as it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Contract => "contract",
        }
    }
}

impl std::str::FromStr for RemoteKind {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "mcp" => Ok(Self::Mcp),
            "contract" => Ok(Self::Contract),
            _ => Err(UnknownWord {
                what: "kind of remote task",
                text: text.to_owned(),
            }),
        }
    }
}

/// Which host an action belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostKind {
    /// The ledger in the same database: completion commits in one transaction.
    Ledger,
    /// A host of its own: the outcome is accepted first, then delivered until acknowledged.
    Foreign,
}

impl HostKind {
    /// The kind as it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Foreign => "foreign",
        }
    }
}

/// What is known of the remote task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteTask {
    /// Whose protocol it follows.
    pub kind: RemoteKind,
    /// Its id; chosen by the server, written once.
    pub id: String,
    /// When the server says that it was created, in the server's own words.
    pub created_at: String,
    /// The server's last word on its status.
    pub status: String,
    /// Whether that status is an end.
    pub ended: bool,
    /// The newest progress: a `statusMessage`, or a contract task's payload.
    pub progress: Option<String>,
    /// How long the server keeps it, from its creation; `None` is for ever.
    pub ttl: Option<Duration>,
    /// How often the server wants to be asked.
    pub poll_interval: Option<Duration>,
}

/// What went wrong lately. Every count is of consecutive answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Calls that reached nobody.
    pub errors: u32,
    /// Answers that the task is unknown.
    pub gone: u32,
    /// Answers that could not be understood.
    pub malformed: u32,
    /// The last failure of any kind, for a reader.
    pub last: Option<String>,
}

impl Trouble {
    /// Whether the last call was answered well. A failure of it may still be there to be read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.errors == 0 && self.gone == 0 && self.malformed == 0
    }
}

/// What remains to be done about remote work after the outcome is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanUp {
    /// Whether something remains.
    pub open: bool,
    /// How often the server was asked to cancel.
    pub asked: u32,
    /// When it acknowledged.
    pub acknowledged_at: Option<Moment>,
    /// Attempts since, to learn what the remote task finally did.
    pub looked: u32,
}

/// The one row that ties an action to its remote task.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Linkage {
    /// The host's action; the key.
    pub action: ActionId,
    /// Its run.
    pub run: RunId,
    /// The run's owner.
    pub owner: OwnerId,
    /// The server.
    pub registration: RegistrationId,
    /// Which host is told.
    pub host: HostKind,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map,
    /// What to do when the answer to the start is lost.
    pub policy: StartPolicy,
    /// What to do when the remote task asks for input.
    #[serde(skip)]
    pub input: InputHandling,
    /// When the host's patience ends.
    pub deadline_at: Option<Moment>,
    /// The time to live that is assumed when the server sets none.
    pub assumed_ttl: Option<Duration>,
    /// The language model's id of the call.
    pub tool_call_id: Option<String>,
    /// The language model's provider.
    pub provider: Option<String>,
    /// When the action was submitted.
    pub created_at: Moment,

    /// Where it stands.
    pub phase: Phase,
    /// How often a start may have reached the server.
    pub starts: u32,
    /// When the last of them was sent, or was about to be.
    pub sent_at: Option<Moment>,
    /// The remote task, once its id is known.
    pub remote: Option<RemoteTask>,
    /// How often its state was read.
    pub polls: u64,
    /// When it was read last.
    pub polled_at: Option<Moment>,
    /// What went wrong lately.
    pub trouble: Trouble,
    /// The open requests for input, by key.
    pub input_requests: Map,
    /// What remains to be done about remote work.
    pub clean_up: CleanUp,
    /// The outcome, once it is known. Written once.
    pub outcome: Option<Outcome>,
    /// When it became known.
    pub finished_at: Option<Moment>,
    /// When the next step is due; none when nothing remains.
    pub next_due: Option<Moment>,
}

impl Linkage {
    /// The row of a new submission.
    #[must_use]
    pub fn intent(submission: &Submission, host: HostKind, now: Moment) -> Self {
        Self {
            action: submission.action.clone(),
            run: submission.run.clone(),
            owner: submission.owner.clone(),
            registration: submission.registration.clone(),
            host,
            tool: submission.tool.clone(),
            arguments: submission.arguments.clone(),
            policy: submission.policy,
            input: submission.input,
            deadline_at: submission.execution_deadline.map(|after| now.after(after)),
            assumed_ttl: submission.remote_task_ttl,
            tool_call_id: submission.tool_call_id.clone(),
            provider: submission.provider.clone(),
            created_at: now,
            phase: Phase::Intent,
            starts: 0,
            sent_at: None,
            remote: None,
            polls: 0,
            polled_at: None,
            trouble: Trouble::default(),
            input_requests: Map::new(),
            clean_up: CleanUp::default(),
            outcome: None,
            finished_at: None,
            next_due: Some(now),
        }
    }

    /// When the server may forget the task, as far as is known: counted from the sending of the
    /// start, by the store's clock.
    #[must_use]
    pub fn expires_at(&self) -> Option<Moment> {
        let ttl = self
            .remote
            .as_ref()
            .and_then(|remote| remote.ttl)
            .or(self.assumed_ttl)?;
        Some(self.sent_at?.after(ttl))
    }

    /// The key under which a server that promises so recognises a repeated start: the same for
    /// every attempt at this action, and no other's.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.owner.as_str(), self.run.as_str(), self.action.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(self.created_at.unix_ms().to_be_bytes());
        hex(&hash.finalize())
    }

    /// Whether a start may have begun work that nobody here can name, and so neither follow nor
    /// cancel. Not in `sending` alone: of several starts the last may be proven unsent.
    #[must_use]
    pub fn may_run_unnamed(&self) -> bool {
        self.starts > 0 && self.remote.is_none()
    }

    /// Whether nothing remains to be done, for the host or for the server.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.phase.is_final() && !self.clean_up.open
    }
}

/// A number that rises with every lease of a row, and is compared on every write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// From its number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
