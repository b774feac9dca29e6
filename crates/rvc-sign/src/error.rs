//! Why an event is refused.

use core::fmt;

/// Why an event's headers, body and time do not verify.
///
/// The variants stand in the order in which the checks run; the first that
/// fails is the verdict (contract decision 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A header that must come exactly once is not there.
    #[error("header {name} is missing")]
    MissingHeader {
        /// The header's name in lower case.
        name: &'static str,
    },

    /// A header that must come exactly once came more often.
    #[error("header {name} came more than once")]
    DuplicateHeader {
        /// The header's name in lower case.
        name: &'static str,
    },

    /// The timestamp is not plain ASCII digits, has a leading zero, or does not
    /// fit in an `i64`.
    #[error("timestamp is not a whole number of unix seconds in plain digits")]
    BadTimestamp,

    /// The signature is not `sha256=` and 64 lower-case hex digits.
    #[error("signature is not sha256= and 64 lower-case hex digits")]
    MalformedSignature,

    /// The timestamp is too far from the receiver's clock.
    #[error("timestamp is {skew_s} s {direction} the receiver's clock")]
    Stale {
        /// The distance between the timestamp and the clock, in seconds.
        skew_s: u64,
        /// On which side of the clock the timestamp lies.
        direction: SkewDirection,
    },

    /// No secret gives this signature for this timestamp and body.
    #[error("signature does not match the body under any known secret")]
    Mismatch,
}

impl VerifyError {
    /// The verdict as one word, as logs and the command line print it:
    /// `missing_header`, `duplicate_header`, `bad_timestamp`,
    /// `malformed_signature`, `stale` or `mismatch`.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        match self {
            Self::MissingHeader { .. } => "missing_header",
            Self::DuplicateHeader { .. } => "duplicate_header",
            Self::BadTimestamp => "bad_timestamp",
            Self::MalformedSignature => "malformed_signature",
            Self::Stale { .. } => "stale",
            Self::Mismatch => "mismatch",
        }
    }

    /// Whether the headers themselves are wrong, so that no secret and no clock
    /// could make them verify.
    ///
    /// Such a request is a bad one; any other error is a refused one, which
    /// a look at both sides' secrets and clocks can explain.
    #[must_use]
    pub const fn is_malformed(&self) -> bool {
        match self {
            Self::MissingHeader { .. }
            | Self::DuplicateHeader { .. }
            | Self::BadTimestamp
            | Self::MalformedSignature => true,
            Self::Stale { .. } | Self::Mismatch => false,
        }
    }
}

/// On which side of the receiver's clock a stale timestamp lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SkewDirection {
    /// The timestamp is in the receiver's past: the event came late, or the
    /// sender's clock is slow.
    Behind,
    /// The timestamp is in the receiver's future: the sender's clock is fast.
    Ahead,
}

/// Writes what stands between a skew and "the receiver's clock".
impl fmt::Display for SkewDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Behind => "behind",
            Self::Ahead => "ahead of",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn verdict_message_and_predicate_of_every_error() {
        let cases = [
            (
                VerifyError::MissingHeader { name: "x" },
                ("missing_header", "header x is missing", true),
            ),
            (
                VerifyError::DuplicateHeader { name: "x" },
                ("duplicate_header", "header x came more than once", true),
            ),
            (
                VerifyError::BadTimestamp,
                (
                    "bad_timestamp",
                    "timestamp is not a whole number of unix seconds in plain digits",
                    true,
                ),
            ),
            (
                VerifyError::MalformedSignature,
                (
                    "malformed_signature",
                    "signature is not sha256= and 64 lower-case hex digits",
                    true,
                ),
            ),
            (
                VerifyError::Stale {
                    skew_s: 301,
                    direction: SkewDirection::Ahead,
                },
                (
                    "stale",
                    "timestamp is 301 s ahead of the receiver's clock",
                    false,
                ),
            ),
            (
                VerifyError::Mismatch,
                (
                    "mismatch",
                    "signature does not match the body under any known secret",
                    false,
                ),
            ),
        ];
        for (error, (verdict, message, malformed)) in cases {
            assert_eq!(error.verdict(), verdict);
            assert_eq!(error.to_string(), message);
            assert_eq!(error.is_malformed(), malformed, "{verdict}");
        }
    }
}
