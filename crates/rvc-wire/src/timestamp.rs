use core::fmt;
use core::str::FromStr;

use alloc::borrow::Cow;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A point in time in UTC, to the millisecond.
///
/// Written with exactly three fractional digits and `Z`. Any RFC 3339 offset and precision is
/// read, and what is finer than a millisecond is cut off; a time without an offset is refused
/// (contract decision 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    unix_ms: i64,
}

impl Timestamp {
    /// The point `unix_ms` milliseconds after 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    ///
    /// [`TimestampError::OutOfRange`] outside the years 0 to 9999, which RFC 3339 cannot write.
    pub fn from_unix_ms(unix_ms: i64) -> Result<Self, TimestampError> {
        let seconds = unix_ms.div_euclid(1_000);
        match OffsetDateTime::from_unix_timestamp(seconds) {
            Ok(at) if at.year() >= 0 => Ok(Self { unix_ms }),
            _ => Err(TimestampError::OutOfRange { unix_ms }),
        }
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn unix_ms(self) -> i64 {
        self.unix_ms
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(TimestampError::NotRfc3339)?;
        let unix_ms = at.unix_timestamp() * 1_000 + i64::from(at.millisecond());
        // An offset can move the ends of the calendar out of the years that can be written.
        Self::from_unix_ms(unix_ms)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = OffsetDateTime::from_unix_timestamp(self.unix_ms.div_euclid(1_000))
            .expect("the constructor checked the range");
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            at.year(),
            u8::from(at.month()),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            self.unix_ms.rem_euclid(1_000),
        )
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(|error: TimestampError| {
            // serde keeps no source, so the cause goes into the message.
            match error {
                TimestampError::NotRfc3339(cause) => {
                    serde::de::Error::custom(alloc::format!("{error}: {cause}"))
                }
                other => serde::de::Error::custom(other),
            }
        })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "RFC 3339 with an offset; written in UTC with milliseconds.",
            "type": "string",
            "format": "date-time",
        })
    }
}

/// Why a value is no timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimestampError {
    /// The text is not RFC 3339 with an offset, or names an impossible date.
    #[error("timestamp is not RFC 3339 with an offset")]
    NotRfc3339(#[source] time::error::Parse),

    /// The point lies outside the years 0 to 9999.
    #[error("{unix_ms} ms from 1970 lies outside the years 0 to 9999")]
    OutOfRange {
        /// Milliseconds since 1970-01-01T00:00:00Z.
        unix_ms: i64,
    },
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn every_offset_and_precision_is_written_in_utc_with_three_digits() {
        for (read, written) in [
            ("2026-06-12T14:03:00.123Z", "2026-06-12T14:03:00.123Z"),
            ("2026-06-12T14:03:00Z", "2026-06-12T14:03:00.000Z"),
            ("2026-06-12T14:03:00.1239999Z", "2026-06-12T14:03:00.123Z"),
            ("2026-06-12T16:03:00.5+02:00", "2026-06-12T14:03:00.500Z"),
            ("2026-06-12t14:03:00z", "2026-06-12T14:03:00.000Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(read.parse::<Timestamp>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn times_that_cannot_be_placed_are_refused() {
        for bad in [
            "",
            "2026-06-12T14:03:00",
            "2026-02-30T00:00:00Z",
            "2026-06-12 14:03",
            "1765532000",
            "0000-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
        ] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad:?}");
        }
        assert!(Timestamp::from_unix_ms(i64::MAX).is_err());
        assert!(Timestamp::from_unix_ms(i64::MIN).is_err());
    }
}
