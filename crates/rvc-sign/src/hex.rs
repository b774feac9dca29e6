//! Lower-case hex of a tag, without allocation.

/// Bytes in a tag.
pub(crate) const TAG_LEN: usize = 32;

/// Hex digits in a tag.
pub(crate) const HEX_LEN: usize = 2 * TAG_LEN;

/// Writes `tag` as hex digits.
///
/// Arithmetic instead of a table, so that the compiler vectorises the loop:
/// signing has three per cent over bare HMAC to spend.
pub(crate) fn encode(tag: &[u8; TAG_LEN], into: &mut [u8; HEX_LEN]) {
    let (pairs, _) = into.as_chunks_mut::<2>();
    for (byte, pair) in tag.iter().zip(pairs) {
        *pair = [digit(byte >> 4), digit(byte & 0xf)];
    }
}

/// Reads exactly 64 lower-case hex digits.
pub(crate) fn decode(text: &[u8]) -> Option<[u8; TAG_LEN]> {
    let digits: &[u8; HEX_LEN] = text.try_into().ok()?;
    let (pairs, _) = digits.as_chunks::<2>();
    let mut tag = [0; TAG_LEN];
    for (byte, &[high, low]) in tag.iter_mut().zip(pairs) {
        *byte = nibble(high)? << 4 | nibble(low)?;
    }
    Some(tag)
}

fn digit(nibble: u8) -> u8 {
    // Between '9' and 'a' lie 39 other characters.
    b'0' + nibble + if nibble > 9 { 39 } else { 0 }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_lower_case_digits_and_reads_back() {
        for byte in 0..=u8::MAX {
            let mut text = [0; HEX_LEN];
            encode(&[byte; TAG_LEN], &mut text);
            assert_eq!(
                std::str::from_utf8(&text[..2]),
                Ok(std::format!("{byte:02x}").as_str())
            );
            assert_eq!(decode(&text), Some([byte; TAG_LEN]));
        }
    }

    #[test]
    fn only_lower_case_digits_are_read() {
        for other in 0..=u8::MAX {
            let mut text = [b'0'; HEX_LEN];
            text[HEX_LEN - 1] = other;
            assert_eq!(
                decode(&text).is_some(),
                matches!(other, b'0'..=b'9' | b'a'..=b'f'),
                "{other}"
            );
        }
    }

    #[test]
    fn only_sixty_four_digits_are_read() {
        for len in 0..200 {
            assert_eq!(decode(&[b'0'; 200][..len]).is_some(), len == HEX_LEN);
        }
    }
}
