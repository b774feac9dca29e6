use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration with a default that the help shows.
#[derive(Clone, Copy)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let (count, unit) = [(3_600_000_u128, "h"), (1000, "s")]
            .into_iter()
            .find(|(length, _)| millis.is_multiple_of(*length))
            .map_or((millis, "ms"), |(length, unit)| (millis / length, unit));
        write!(f, "{count}{unit}")
    }
}

/// Reads a duration of a command line: a number and a unit, `250ms`, `30s`, `10m`, `1.5h` or `2d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration such as 250ms, 30s, 10m, 1.5h or 2d");
    let unit_at = text
        .find(|character: char| character.is_ascii_alphabetic())
        .ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
    if duration.is_zero() || duration > LONGEST {
        return Err(format!(
            "{text:?} is not between a moment and a hundred years"
        ));
    }
    Ok(duration)
}

/// Longer is a slip of the finger, and overflows a clock sooner or later.
const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("10m", 600_000),
            ("1.5h", 5_400_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for (millis, shown) in [(500, "500ms"), (60_000, "60s"), (3_600_000, "1h")] {
            let span = Span(Duration::from_millis(millis));
            assert_eq!(span.to_string(), shown);
            assert_eq!(parse(shown), Ok(span.0));
        }
        for bad in [
            "", "10", "m", "-1s", "0s", "1 s", "1w", "1e3s", "NaNs", "infs", "1000000d", "5ö",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
