use alloc::string::ToString;
use alloc::sync::Arc;

use crate::text::text_newtype;

/// What a receiver dedupes on: the same in every attempt to deliver an event.
///
/// Written as a version 4 UUID, lower case, with hyphens; read as opaque text of 1 to 128 bytes
/// (contract decision 1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventId(
    #[cfg_attr(
        feature = "schema",
        schemars(with = "alloc::string::String", extend("minLength" = 1, "maxLength" = 128))
    )]
    Arc<str>,
);

impl EventId {
    /// The version 4 UUID that 16 random bytes make; six of their bits are overwritten.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
        Self(uuid.hyphenated().to_string().into())
    }

    fn check(text: &str) -> Result<(), EventIdError> {
        match text.len() {
            0 => Err(EventIdError::Empty),
            1..=128 => Ok(()),
            length => Err(EventIdError::TooLong { length }),
        }
    }
}

text_newtype!(EventId, EventIdError);

/// Why a text is no event id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventIdError {
    /// Nothing was given.
    #[error("event id is empty")]
    Empty,

    /// More than 128 bytes.
    #[error("event id has {length} bytes, at most 128 are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_make_a_lower_case_version_4_uuid() {
        let id = EventId::from_random([0xff; 16]);
        assert_eq!(id.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn ids_of_other_forms_are_read_up_to_128_bytes() {
        let longest = "x".repeat(128);
        for good in ["8c1f0e2a3f0d4c599b526b1c6f5b7d11", "1", &longest] {
            assert_eq!(good.parse::<EventId>().unwrap().as_str(), good);
        }
        assert_eq!("".parse::<EventId>(), Err(EventIdError::Empty));
        assert_eq!(
            "x".repeat(129).parse::<EventId>(),
            Err(EventIdError::TooLong { length: 129 })
        );
    }
}
