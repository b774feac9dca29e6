//! What holds for every secret, time and body.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;
use rvc_sign::{Headers, Secret, SignedHeaders, Verifier, VerifyError, sign};

use crate::{NOW, secret};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_signed_verifies_within_the_tolerance(
        key in bytes(1..200),
        timestamp in 0..=i64::MAX,
        skew in -300..=300_i64,
        body in bytes(0..300),
    ) {
        let now = timestamp.saturating_add(skew);
        let signed = SignedHeaders::new(&secret(&key), timestamp, &body);
        let signature = sign(&secret(&key), timestamp, &body);
        prop_assert_eq!(signed.signature(), signature.header_value());
        prop_assert_eq!(verify(&key, signed.timestamp(), signed.signature(), &body, now), Ok(0));
    }

    #[test]
    fn a_flipped_bit_in_the_body_is_a_mismatch(
        key in bytes(1..100),
        body in bytes(1..300),
        bit in any::<Index>(),
    ) {
        let signed = SignedHeaders::new(&secret(&key), NOW, &body);
        let body = flipped(&body, bit);
        prop_assert_eq!(
            verify(&key, signed.timestamp(), signed.signature(), &body, NOW),
            Err(VerifyError::Mismatch)
        );
    }

    #[test]
    fn a_flipped_bit_in_the_secret_is_a_mismatch(
        key in bytes(1..200),
        body in bytes(0..100),
        bit in any::<Index>(),
    ) {
        let signed = SignedHeaders::new(&secret(&key), NOW, &body);
        let key = flipped(&key, bit);
        prop_assert_eq!(
            verify(&key, signed.timestamp(), signed.signature(), &body, NOW),
            Err(VerifyError::Mismatch)
        );
    }

    #[test]
    fn a_flipped_bit_in_the_tag_is_a_mismatch(
        key in bytes(1..100),
        body in bytes(0..100),
        digit in 0..64_usize,
        bit in 0..4_u32,
    ) {
        let mut digits: Vec<char> = sign(&secret(&key), NOW, &body).hex().chars().collect();
        let nibble = digits[digit].to_digit(16).unwrap() ^ (1_u32 << bit);
        digits[digit] = char::from_digit(nibble, 16).unwrap();
        let header = format!("sha256={}", digits.into_iter().collect::<String>());
        prop_assert_eq!(
            verify(&key, NOW.to_string(), header, &body, NOW),
            Err(VerifyError::Mismatch)
        );
    }

    #[test]
    fn a_flipped_bit_in_a_header_is_refused(
        key in bytes(1..100),
        body in bytes(0..100),
        bit in any::<Index>(),
    ) {
        let signed = SignedHeaders::new(&secret(&key), NOW, &body);
        let timestamp = flipped(signed.timestamp().as_bytes(), bit);
        prop_assert!(verify(&key, timestamp, signed.signature(), &body, NOW).is_err());
        let signature = flipped(signed.signature().as_bytes(), bit);
        prop_assert!(verify(&key, signed.timestamp(), signature, &body, NOW).is_err());
    }

    #[test]
    fn another_timestamp_within_the_tolerance_is_a_mismatch(
        key in bytes(1..100),
        body in bytes(0..100),
        other in (-300..=300_i64).prop_filter("another", |skew| *skew != 0),
    ) {
        let signed = SignedHeaders::new(&secret(&key), NOW, &body);
        prop_assert_eq!(
            verify(&key, (NOW + other).to_string(), signed.signature(), &body, NOW),
            Err(VerifyError::Mismatch)
        );
    }

    #[test]
    fn no_header_bytes_verify_or_panic(
        timestamp in bytes(0..30),
        signature in bytes(0..100),
        body in bytes(0..50),
        now in any::<i64>(),
        max_skew_s in any::<u64>(),
    ) {
        let verifier = Verifier::new([secret(b"s3cret")]).max_skew_s(max_skew_s);
        prop_assert!(verifier.verify_values(&timestamp, &signature, &body, now).is_err());
    }

    #[test]
    fn headers_of_the_right_form_but_unsigned_are_stale_or_a_mismatch(
        timestamp in 0..=i64::MAX,
        signature in "sha256=[0-9a-f]{64}",
        now in any::<i64>(),
        body in bytes(0..50),
    ) {
        let verdict = verify(b"s3cret", timestamp.to_string(), signature, &body, now);
        let stale = now.abs_diff(timestamp) > 300;
        prop_assert_eq!(matches!(verdict, Err(VerifyError::Stale { .. })), stale);
        prop_assert_eq!(verdict == Err(VerifyError::Mismatch), !stale);
    }

    #[test]
    fn any_list_of_headers_gives_three_values_exactly_when_there_is_one_of_each(
        picks in vec(0..5_usize, 0..7),
    ) {
        let names = ["X-Rvc-Server", "x-rvc-timestamp", "X-RVC-SIGNATURE", "host", ""];
        let pairs = picks.iter().map(|pick| (names[*pick], "value"));
        let each_once = (0..3).all(|name| picks.iter().filter(|pick| **pick == name).count() == 1);
        prop_assert_eq!(Headers::from_pairs(pairs).is_ok(), each_once);
    }

    #[test]
    fn any_configured_bytes_are_a_secret_or_an_error(value in bytes(0..40)) {
        let configured = Secret::from_config(&value);
        let from_file = Secret::from_file_contents(&[&value[..], b"\n"].concat());
        match (configured, from_file) {
            (Ok((configured, _)), Ok((from_file, _))) => {
                prop_assert_eq!(configured.key_id(), from_file.key_id());
            }
            (configured, from_file) => {
                // A value that ends in a carriage return: with the newline it
                // is one line ending.
                prop_assert!(configured.is_err());
                prop_assert!(from_file.is_err() || value.ends_with(b"\r"));
            }
        }
    }
}

fn bytes(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), len)
}

fn flipped(bytes: &[u8], bit: Index) -> Vec<u8> {
    let bit = bit.index(8 * bytes.len());
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

fn verify(
    key: &[u8],
    timestamp: impl AsRef<[u8]>,
    signature: impl AsRef<[u8]>,
    body: &[u8],
    now: i64,
) -> Result<usize, VerifyError> {
    Verifier::new([secret(key)]).verify_values(timestamp, signature, body, now)
}
