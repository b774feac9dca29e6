use alloc::format;
use alloc::sync::Arc;

use crate::ShortName;
use crate::text::text_newtype;

/// One unit of a server's long work: `nav-7f3a2b`.
///
/// Six digits repeat across restarts of a server (an even chance at about 4,800 tasks), so a
/// receiver keys by server, task and creation, never by this alone (contract decision 2). Any text
/// that is not empty is read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskId(
    #[cfg_attr(
        feature = "schema",
        schemars(with = "alloc::string::String", extend("minLength" = 1))
    )]
    Arc<str>,
);

impl TaskId {
    /// The id that a short name and the low 24 of some random bits make.
    ///
    /// The caller draws again while it holds a task of that id.
    #[must_use]
    pub fn draw(short: &ShortName, bits: u32) -> Self {
        Self(format!("{short}-{:06x}", bits & 0x00ff_ffff).into())
    }

    fn check(text: &str) -> Result<(), TaskIdError> {
        if text.is_empty() {
            Err(TaskIdError)
        } else {
            Ok(())
        }
    }
}

text_newtype!(TaskId, TaskIdError);

/// An empty text: no task id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task id is empty")]
pub struct TaskIdError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_short_name_and_six_hex_digits() {
        let short: ShortName = "nav".parse().unwrap();
        for (bits, id) in [
            (0x007f_3a2b, "nav-7f3a2b"),
            (0, "nav-000000"),
            (u32::MAX, "nav-ffffff"),
        ] {
            assert_eq!(TaskId::draw(&short, bits).as_str(), id);
        }
    }
}
