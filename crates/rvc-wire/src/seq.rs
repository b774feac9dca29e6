use core::fmt;
use core::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// An event's gap-free position in its task, from 1 (contract section 3.1, decision 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Seq(NonZeroU64);

impl Seq {
    /// The position of a task's first event.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The position as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The position after this one.
    ///
    /// # Panics
    ///
    /// After `u64::MAX` events: at a million a second, in half a million years.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(
            self.0
                .checked_add(1)
                .expect("a task emits fewer than 2^64 events"),
        )
    }
}

impl TryFrom<u64> for Seq {
    type Error = SeqError;

    fn try_from(number: u64) -> Result<Self, SeqError> {
        NonZeroU64::new(number).map(Self).ok_or(SeqError)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position of zero: the first event is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seq is 0, the first event of a task is 1")]
pub struct SeqError;
