//! Where a task stands, as a pure state machine; the record holds it under its lock.
//!
//! ```text
//!            body returned, panicked or was dropped
//!   Running ─────────────────────────────────────────────► Ended (stopped)
//!      │ seal                                                 ▲
//!      ▼           body stopped                               │
//!   Stopping ─────────────────────────────────────────────────┘
//!      │ grace over
//!      ▼            body stopped
//!   Ended (not stopped) ───────────────► Ended (stopped late)
//! ```
//!
//! 1. A task ends once. Whoever makes the transition under the lock has won; this settles a
//!    cancel in the completion window (body returned, end not yet recorded).
//! 2. From `Stopping` the end is the seal's, whatever the body returns.
//! 3. Events other than the end are admitted in `Running` only.

use std::time::Duration;

use rvc_wire::{Map, TaskFailure, TaskState};

use crate::EmitError;
use crate::failures::timed_out;

/// Why a task was told to stop before its body returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// A cancel was accepted.
    Cancel,
    /// The deadline, this long after the start, passed.
    Deadline(Duration),
}

/// What became of a request to seal the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealing {
    /// This request sealed it: its maker drives the teardown.
    Accepted,
    /// It was sealed before; the teardown is under way.
    UnderWay,
    /// The task had already ended.
    TooLate,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Succeeded(Map),
    Failed(TaskFailure),
    Cancelled,
}

impl End {
    pub(crate) const fn state(&self) -> TaskState {
        match self {
            Self::Succeeded(_) => TaskState::Succeeded,
            Self::Failed(_) => TaskState::Failed,
            Self::Cancelled => TaskState::Cancelled,
        }
    }
}

/// How a body stopped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Exit {
    /// It came to an end of its own.
    Returned(End),
    /// It was dropped, and that is how it stops; or it never began.
    Dropped,
    /// It panicked (then there is a failure), or was dropped amid its teardown: nobody knows
    /// what still moves.
    Broken(Option<TaskFailure>),
}

/// What the report that a body has stopped led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The task ended with it.
    Ended,
    /// The task had ended when its grace was over; only now is the body gone.
    Late,
}

#[derive(Debug)]
pub(crate) enum Stage {
    Running,
    Stopping(Seal),
    Ended {
        end: End,
        /// Whether the body had stopped in order when the task ended: what every cancel that
        /// waited for the end answers.
        stopped: bool,
        /// Whether it has since.
        stopped_late: bool,
    },
}

impl Stage {
    /// Whether an event other than the end may be sent.
    pub(crate) const fn admit(&self) -> Result<(), EmitError> {
        match self {
            Self::Running => Ok(()),
            _ if self.is_cancelled() => Err(EmitError::Cancelled),
            Self::Stopping(_) => Err(EmitError::TimedOut),
            Self::Ended { .. } => Err(EmitError::Ended),
        }
    }

    pub(crate) fn seal(&mut self, seal: Seal) -> Sealing {
        match self {
            Self::Running => {
                *self = Self::Stopping(seal);
                Sealing::Accepted
            }
            Self::Stopping(_) => Sealing::UnderWay,
            Self::Ended { .. } => Sealing::TooLate,
        }
    }

    /// The body is gone.
    pub(crate) fn body_stopped(&mut self, exit: Exit) -> Stop {
        let stopped = !matches!(exit, Exit::Broken(_));
        let end = match self {
            Self::Running => match exit {
                Exit::Returned(end) => end,
                Exit::Broken(Some(failure)) => End::Failed(failure),
                // Dropped although nobody asked: its runtime shuts down.
                Exit::Dropped | Exit::Broken(None) => End::Cancelled,
            },
            Self::Stopping(seal) => sealed_end(*seal, stopped),
            Self::Ended { stopped_late, .. } => {
                *stopped_late = stopped;
                return Stop::Late;
            }
        };
        *self = Self::Ended {
            end,
            stopped,
            stopped_late: false,
        };
        Stop::Ended
    }

    /// The time that the body had for stopping is over. True if the task ended with that.
    pub(crate) fn grace_over(&mut self) -> bool {
        let Self::Stopping(seal) = self else {
            return false;
        };
        *self = Self::Ended {
            end: sealed_end(*seal, false),
            stopped: false,
            stopped_late: false,
        };
        true
    }

    /// Whether the end is `cancelled`, or will be.
    pub(crate) const fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Stopping(Seal::Cancel)
                | Self::Ended {
                    end: End::Cancelled,
                    ..
                }
        )
    }

    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    pub(crate) const fn state(&self) -> TaskState {
        match self {
            Self::Running | Self::Stopping(_) => TaskState::Running,
            Self::Ended { end, .. } => end.state(),
        }
    }
}

fn sealed_end(seal: Seal, stopped: bool) -> End {
    match seal {
        Seal::Cancel => End::Cancelled,
        Seal::Deadline(after) => End::Failed(timed_out(after, stopped)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::failures::internal;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Cancel,
        Deadline,
        Return,
        Drop,
        GraceOver,
    }

    fn returned() -> Exit {
        Exit::Returned(End::Succeeded(Map::new()))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Cancel),
            Just(Step::Deadline),
            Just(Step::Return),
            Just(Step::Drop),
            Just(Step::GraceOver),
        ]
    }

    proptest! {
        #[test]
        fn a_task_ends_once_and_as_the_first_seal_or_return_says(
            steps in prop::collection::vec(step(), 0..12)
        ) {
            let mut stage = Stage::Running;
            let mut decided = None;
            let mut ends = 0;
            for step in steps {
                let (decides, ended) = match step {
                    Step::Cancel => {
                        let accepted = stage.seal(Seal::Cancel) == Sealing::Accepted;
                        (accepted.then_some(TaskState::Cancelled), false)
                    }
                    Step::Deadline => {
                        let seal = Seal::Deadline(Duration::from_secs(1));
                        let accepted = stage.seal(seal) == Sealing::Accepted;
                        (accepted.then_some(TaskState::Failed), false)
                    }
                    Step::Return => {
                        let was_running = matches!(stage, Stage::Running);
                        let stop = stage.body_stopped(returned());
                        (was_running.then_some(TaskState::Succeeded), stop == Stop::Ended)
                    }
                    Step::Drop => {
                        let was_running = matches!(stage, Stage::Running);
                        let stop = stage.body_stopped(Exit::Dropped);
                        (was_running.then_some(TaskState::Cancelled), stop == Stop::Ended)
                    }
                    Step::GraceOver => (None, stage.grace_over()),
                };
                if decides.is_some() {
                    prop_assert!(decided.is_none(), "decided twice");
                    decided = decides;
                }
                ends += usize::from(ended);
                if stage.has_ended() {
                    prop_assert_eq!(Some(stage.state()), decided);
                } else {
                    prop_assert_eq!(stage.state(), TaskState::Running);
                }
                prop_assert_eq!(stage.admit().is_ok(), decided.is_none());
            }
            prop_assert_eq!(ends, usize::from(stage.has_ended()));
        }
    }

    #[test]
    fn a_body_that_stops_late_leaves_the_verdict_and_is_noted() {
        for (exit, late) in [
            (returned(), true),
            (Exit::Dropped, true),
            (Exit::Broken(None), false),
        ] {
            let mut stage = Stage::Running;
            stage.seal(Seal::Cancel);
            assert!(stage.grace_over());

            assert_eq!(stage.body_stopped(exit), Stop::Late);

            let Stage::Ended {
                end,
                stopped,
                stopped_late,
            } = stage
            else {
                panic!("it ended with its grace");
            };
            assert_eq!((end, stopped, stopped_late), (End::Cancelled, false, late));
        }
    }

    #[test]
    fn only_a_body_that_ends_in_order_counts_as_stopped() {
        for (exit, state, in_order) in [
            (returned(), TaskState::Succeeded, true),
            (Exit::Dropped, TaskState::Cancelled, true),
            (Exit::Broken(None), TaskState::Cancelled, false),
            (
                Exit::Broken(Some(internal("boom".into()))),
                TaskState::Failed,
                false,
            ),
        ] {
            for sealed in [false, true] {
                let mut stage = Stage::Running;
                if sealed {
                    stage.seal(Seal::Cancel);
                }
                assert_eq!(stage.body_stopped(exit.clone()), Stop::Ended);
                let expected = if sealed { TaskState::Cancelled } else { state };
                assert_eq!(stage.state(), expected);
                assert!(matches!(stage, Stage::Ended { stopped, .. } if stopped == in_order));
            }
        }
    }
}
