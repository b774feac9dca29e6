use std::fmt;

use crate::name::ActionId;

/// A place in an action's life where a crash matters, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DurableStep {
    /// The row is leased.
    Claimed,
    /// A connection is open; nothing was sent.
    Connected,
    /// `sending` is durable; the start goes out next.
    SendingCommitted,
    /// The start was answered, or was not; nothing is written yet.
    StartAnswered,
    /// The remote task is linked.
    LinkCommitted,
    /// A poll was answered; nothing is written yet.
    PollAnswered,
    /// The state that a poll brought is durable.
    PollCommitted,
    /// Answers for the remote task went out; nothing is written yet.
    InputSent,
    /// The outcome is durable.
    OutcomeCommitted,
    /// A foreign host took the outcome; nothing is written yet.
    Delivered,
    /// The delivery is durable.
    DeliveryCommitted,
    /// The server was asked to cancel; nothing is written yet.
    CancelAsked,
    /// What became of the cancel is durable.
    CancelCommitted,
}

impl DurableStep {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Claimed,
        Self::Connected,
        Self::SendingCommitted,
        Self::StartAnswered,
        Self::LinkCommitted,
        Self::PollAnswered,
        Self::PollCommitted,
        Self::InputSent,
        Self::OutcomeCommitted,
        Self::Delivered,
        Self::DeliveryCommitted,
        Self::CancelAsked,
        Self::CancelCommitted,
    ];

    /// The step's name, for a harness.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Connected => "connected",
            Self::SendingCommitted => "sending_committed",
            Self::StartAnswered => "start_answered",
            Self::LinkCommitted => "link_committed",
            Self::PollAnswered => "poll_answered",
            Self::PollCommitted => "poll_committed",
            Self::InputSent => "input_sent",
            Self::OutcomeCommitted => "outcome_committed",
            Self::Delivered => "delivered",
            Self::DeliveryCommitted => "delivery_committed",
            Self::CancelAsked => "cancel_asked",
            Self::CancelCommitted => "cancel_committed",
        }
    }
}

impl fmt::Display for DurableStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Called at every durable step: where a harness kills or stops the process.
///
/// Without one nothing is called.
pub trait Checkpoint: Send + Sync + 'static {
    /// The step was reached for `action`. It may block, stop the process, or never return.
    fn reached(&self, step: DurableStep, action: &ActionId);
}
