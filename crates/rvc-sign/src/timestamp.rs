//! A timestamp in unix seconds, as its header and the signed message write it.

/// Reads ASCII digits without sign, spaces or leading zero that fit in an `i64`
/// (contract decision 10).
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    match text {
        [] | [b'0', _, ..] => None,
        digits => digits.iter().try_fold(0_i64, |value, digit| {
            digit
                .is_ascii_digit()
                .then(|| i64::from(digit - b'0'))
                .and_then(|digit| value.checked_mul(10)?.checked_add(digit))
        }),
    }
}

/// A timestamp in decimal, and the dot that follows it in the signed message.
#[derive(Clone, Copy)]
pub(crate) enum TimestampText {
    /// As it is from 2001 to 2286. The compiler knows how long it is, which makes signing faster.
    TenDigits([u8; TEN_DIGITS_AND_DOT]),
    Other(OtherText),
}

/// Ten digits and a dot.
pub(crate) const TEN_DIGITS_AND_DOT: usize = 11;

impl TimestampText {
    #[inline]
    pub(crate) fn new(timestamp: i64) -> Self {
        match timestamp {
            1_000_000_000..10_000_000_000 => Self::TenDigits(ten_digits(timestamp.unsigned_abs())),
            _ => Self::Other(OtherText::new(timestamp)),
        }
    }

    /// The header's value.
    pub(crate) fn as_str(&self) -> &str {
        let (_, digits) = self.with_dot().split_last().expect("it ends with a dot");
        str::from_utf8(digits).expect("digits and a sign are ASCII")
    }

    /// What the signed message begins with: the header's value and a dot.
    #[inline]
    pub(crate) fn with_dot(&self) -> &[u8] {
        match self {
            Self::TenDigits(text) => text,
            Self::Other(text) => &text.bytes[text.start..],
        }
    }
}

/// No digit waits for another, as it would if each were taken from what the one before left.
#[inline]
fn ten_digits(value: u64) -> [u8; TEN_DIGITS_AND_DOT] {
    let at = |unit: u64| digit(value / unit % 10);
    [
        at(1_000_000_000),
        at(100_000_000),
        at(10_000_000),
        at(1_000_000),
        at(100_000),
        at(10_000),
        at(1_000),
        at(100),
        at(10),
        at(1),
        b'.',
    ]
}

/// Any other timestamp.
#[derive(Clone, Copy)]
pub(crate) struct OtherText {
    // Filled from the end.
    bytes: [u8; Self::CAPACITY],
    start: usize,
}

impl OtherText {
    /// `i64::MIN` has 19 digits and a sign; then comes the dot.
    const CAPACITY: usize = 21;

    #[cold]
    fn new(timestamp: i64) -> Self {
        let mut bytes = [b'.'; Self::CAPACITY];
        let mut start = Self::CAPACITY - 1;
        let mut rest = timestamp.unsigned_abs();
        loop {
            start -= 1;
            bytes[start] = digit(rest % 10);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if timestamp < 0 {
            start -= 1;
            bytes[start] = b'-';
        }
        Self { bytes, start }
    }
}

fn digit(value: u64) -> u8 {
    b'0' + u8::try_from(value).expect("a digit is below ten")
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::ToString;

    use super::*;

    const EDGES: [i64; 18] = [
        0,
        1,
        9,
        10,
        99,
        100,
        109,
        1_000,
        999_999_999,
        1_000_000_000,
        1_023_456_789,
        1_765_532_000,
        9_999_999_999,
        10_000_000_000,
        i64::MAX,
        -1,
        -1_765_532_000,
        i64::MIN,
    ];

    #[test]
    fn text_is_what_the_standard_library_writes() {
        for timestamp in EDGES {
            let text = TimestampText::new(timestamp);
            assert_eq!(text.as_str(), timestamp.to_string());
            assert_eq!(text.with_dot(), format!("{timestamp}.").as_bytes());
        }
    }

    #[test]
    fn text_of_a_timestamp_that_is_not_negative_reads_back() {
        for timestamp in EDGES {
            let text = TimestampText::new(timestamp);
            let expected = (timestamp >= 0).then_some(timestamp);
            assert_eq!(parse(text.as_str().as_bytes()), expected);
        }
    }

    #[test]
    fn anything_but_plain_digits_is_no_timestamp() {
        for text in [
            "",
            "00",
            "01765532000",
            "+1",
            "-1",
            "-0",
            " 1",
            "1 ",
            "1\n",
            "1.0",
            "1e9",
            "1_000",
            "0x10",
            "NaN",
            "nan",
            "inf",
            "Infinity",
            "1,2",
            "1\0",
            "١٧",
            "9223372036854775808",
            "99999999999999999999999999999999999999",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(b"\xff"), None);
    }
}
