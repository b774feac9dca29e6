use std::hash::{BuildHasher, RandomState};

/// A 128-bit stand-in for an id, so that memory is bounded however long ids are.
///
/// The keys are drawn when the process starts: a sender cannot make two ids collide on purpose,
/// and by chance two of a million do once in 10^26 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint(u128);

/// Makes fingerprints; those of two makers cannot be compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fingerprints {
    high: RandomState,
    low: RandomState,
}

impl Fingerprints {
    pub(crate) fn of(&self, text: &str) -> Fingerprint {
        let high = u128::from(self.high.hash_one(text));
        let low = u128::from(self.low.hash_one(text));
        Fingerprint((high << 64) | low)
    }
}
