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
pub(crate) struct TimestampText {
    // Filled from the end.
    bytes: [u8; Self::CAPACITY],
    start: usize,
}

impl TimestampText {
    /// `i64::MIN` has 19 digits and a sign; then comes the dot.
    const CAPACITY: usize = 21;

    pub(crate) fn new(timestamp: i64) -> Self {
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

    /// The header's value.
    pub(crate) fn as_str(&self) -> &str {
        let (_, digits) = self.with_dot().split_last().expect("it ends with a dot");
        str::from_utf8(digits).expect("digits and a sign are ASCII")
    }

    /// What the signed message begins with: the header's value and a dot.
    pub(crate) fn with_dot(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Ten digits and a dot.
pub(crate) const TEN_DIGITS_AND_DOT: usize = 11;

/// [`TimestampText::with_dot`] of a time from 2001 to 2286.
///
/// The compiler knows its length, and no digit waits for the one before:
/// signing has three per cent over bare HMAC to spend.
pub(crate) fn ten_digits_and_dot(timestamp: i64) -> Option<[u8; TEN_DIGITS_AND_DOT]> {
    if !(1_000_000_000..10_000_000_000).contains(&timestamp) {
        return None;
    }
    let timestamp = timestamp.unsigned_abs();
    let first_two = timestamp / 100_000_000;
    let mut text = [b'.'; TEN_DIGITS_AND_DOT];
    text[0] = digit(first_two / 10);
    text[1] = digit(first_two % 10);
    text[2..10].copy_from_slice(&eight_digits(timestamp % 100_000_000));
    Some(text)
}

/// The digits of a number below 100,000,000, with leading zeros.
///
/// Halves, quarters and then eighths of the number lie side by side in one
/// word, the first in the lowest bits, and each step divides all of them at
/// once. A quotient is a product and a shift, exact for what a lane can hold.
fn eight_digits(value: u64) -> [u8; 8] {
    let fours = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((fours * 5_243) >> 19) & 0x0000_007f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | ((twos - tens * 10) << 8);
    (ones | u64::from_le_bytes([b'0'; 8])).to_le_bytes()
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

            let short = ten_digits_and_dot(timestamp);
            let has_ten_digits = (1_000_000_000..=9_999_999_999).contains(&timestamp);
            assert_eq!(
                short.as_ref().map(|it| &it[..]),
                has_ten_digits.then_some(text.with_dot())
            );
        }
    }

    #[test]
    fn every_group_of_ten_digits_is_what_the_standard_library_writes() {
        let pairs = (10..100).map(|pair| pair * 100_000_000);
        let fours = (0..10_000).map(|four| 1_000_000_000 + four * 10_000 + (9_999 - four));
        for timestamp in pairs.chain(fours) {
            assert_eq!(
                ten_digits_and_dot(timestamp).unwrap(),
                format!("{timestamp}.").as_bytes()
            );
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
