//! The names that a task carries: its server, the server's short form, and its tool.

use alloc::sync::Arc;

use crate::text::text_newtype;

/// The name of a capability server, as the brain's configuration has it (`navigation`).
///
/// One to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit, so that it always fits in a
/// header value (contract decision 25).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerName(
    #[cfg_attr(
        feature = "schema",
        schemars(with = "alloc::string::String", extend("pattern" = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))
    )]
    Arc<str>,
);

impl ServerName {
    /// The first four characters: what its task ids start with unless a short name is set.
    #[must_use]
    pub fn short_name(&self) -> ShortName {
        // The name is ASCII, so four bytes are four characters.
        ShortName(self.0[..self.0.len().min(4)].into())
    }

    fn check(text: &str) -> Result<(), NameError> {
        check_name(text, 64)
    }
}

text_newtype!(ServerName, NameError);

/// The first part of a task id (`nav` of `nav-7f3a2b`): a server name of at most 32 characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShortName(
    #[cfg_attr(
        feature = "schema",
        schemars(with = "alloc::string::String", extend("pattern" = "^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$"))
    )]
    Arc<str>,
);

impl ShortName {
    fn check(text: &str) -> Result<(), NameError> {
        check_name(text, 32)
    }
}

text_newtype!(ShortName, NameError);

/// The name of the tool that started a task (`navigate_to`). Any text that is not empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolName(
    #[cfg_attr(
        feature = "schema",
        schemars(with = "alloc::string::String", extend("minLength" = 1))
    )]
    Arc<str>,
);

impl ToolName {
    fn check(text: &str) -> Result<(), NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        Ok(())
    }
}

text_newtype!(ToolName, NameError);

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing was given.
    #[error("name is empty")]
    Empty,

    /// More characters than a name may have.
    #[error("name has {length} characters, at most {most} are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        most: usize,
    },

    /// The first character is neither a letter nor a digit.
    #[error("name starts with {0:?}, not with a letter or digit")]
    BadStart(char),

    /// A character other than `A-Z a-z 0-9 . _ -`.
    #[error("name contains {0:?}, only letters, digits, '.', '_' and '-' are allowed")]
    BadCharacter(char),
}

fn check_name(text: &str, most: usize) -> Result<(), NameError> {
    let Some(first) = text.chars().next() else {
        return Err(NameError::Empty);
    };
    if !first.is_ascii_alphanumeric() {
        return Err(NameError::BadStart(first));
    }
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(bad) = text.chars().find(|c| !allowed(c)) {
        return Err(NameError::BadCharacter(bad));
    }
    if text.len() > most {
        return Err(NameError::TooLong {
            length: text.len(),
            most,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_server_name_fits_a_header_value_or_is_refused() {
        let longest = "n".repeat(64);
        for good in [
            "n",
            "navigation",
            "mcp-perception.buffer_2",
            "7up",
            &longest,
        ] {
            assert_eq!(good.parse::<ServerName>().unwrap().as_str(), good);
        }
        let too_long = "n".repeat(65);
        for (bad, error) in [
            ("", NameError::Empty),
            ("-nav", NameError::BadStart('-')),
            (" nav", NameError::BadStart(' ')),
            ("nav\r\nX-Evil: 1", NameError::BadCharacter('\r')),
            ("nav igation", NameError::BadCharacter(' ')),
            ("küche", NameError::BadCharacter('ü')),
            ("näv", NameError::BadCharacter('ä')),
            (
                &too_long,
                NameError::TooLong {
                    length: 65,
                    most: 64,
                },
            ),
        ] {
            assert_eq!(bad.parse::<ServerName>(), Err(error), "{bad:?}");
        }
    }

    #[test]
    fn the_short_name_is_the_first_four_characters() {
        for (name, short) in [
            ("navigation", "navi"),
            ("nav", "nav"),
            ("perception", "perc"),
        ] {
            let server: ServerName = name.parse().unwrap();
            assert_eq!(server.short_name().to_string(), short);
        }
    }
}
