/// Why an event was not sent. A body may pass it on with `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// A cancel was accepted: stop the robot and return.
    #[error("the task is cancelled")]
    Cancelled,

    /// The deadline has passed: stop the robot and return.
    #[error("the task ran past its deadline")]
    TimedOut,

    /// The body has returned; something that it left behind tried to report.
    #[error("the task has ended")]
    Ended,

    /// The event would be larger than an event may be (contract decision 8). Nothing was
    /// recorded; a smaller one can be sent.
    #[error("event of {bytes} bytes is larger than the {most} allowed")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        most: usize,
    },

    /// The trigger was attached to another task.
    #[error("the trigger is not attached to this task")]
    ForeignTrigger,
}

impl EmitError {
    /// Whether the body is to stop: no event of this task will be sent any more.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Cancelled | Self::TimedOut | Self::Ended)
    }
}
