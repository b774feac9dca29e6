//! The ids a host gives us, and the one a registration has.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text is empty.
    #[error("an id cannot be empty")]
    Empty,
    /// The text is longer than 255 bytes.
    #[error("an id has at most 255 bytes, this one has {bytes}")]
    TooLong {
        /// The text's length.
        bytes: usize,
    },
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                match text.len() {
                    0 => Err(NameError::Empty),
                    1..=255 => Ok(Self(text.into())),
                    bytes => Err(NameError::TooLong { bytes }),
                }
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.as_str().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// A host's action: one logical tool execution.
    ActionId
}
name! {
    /// A host's run: the turn that its actions belong to.
    RunId
}
name! {
    /// A remote MCP server as the host knows it.
    RegistrationId
}
name! {
    /// Who owns a run, and may use a registration.
    OwnerId
}

impl OwnerId {
    /// The owner of everything in a database with one user.
    #[must_use]
    pub fn local() -> Self {
        Self("local".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_to_255_bytes() {
        assert_eq!("".parse::<ActionId>(), Err(NameError::Empty));
        assert!("a".repeat(255).parse::<ActionId>().is_ok());
        assert_eq!(
            "a".repeat(256).parse::<ActionId>(),
            Err(NameError::TooLong { bytes: 256 })
        );
    }
}
