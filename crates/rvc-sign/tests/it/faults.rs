//! What peers get wrong, each by name.

use rvc_sign::{
    Headers, Secret, SecretError, SignedHeaders, SkewDirection, Verifier, VerifyError, sign,
};

use crate::{NOW, secret};

const BODY: &[u8] = br#"{"seq":1,"payload":{}}"#;

#[test]
fn a_body_that_was_parsed_and_written_again_does_not_verify() {
    let signed = SignedHeaders::new(&secret(b"s3cret"), NOW, BODY);
    let again = br#"{"seq": 1, "payload": {}}"#;
    assert_eq!(
        verify(&signed, again, NOW),
        Err(VerifyError::Mismatch),
        "equal JSON, other bytes"
    );
}

#[test]
fn the_tolerance_holds_in_both_directions() {
    let signed = SignedHeaders::new(&secret(b"s3cret"), NOW, BODY);
    for skew in [-300, -1, 0, 1, 300] {
        assert_eq!(verify(&signed, BODY, NOW + skew), Ok(0));
    }
    for (skew, direction) in [(-301, SkewDirection::Ahead), (301, SkewDirection::Behind)] {
        let skew_s = 301;
        assert_eq!(
            verify(&signed, BODY, NOW + skew),
            Err(VerifyError::Stale { skew_s, direction })
        );
    }
}

#[test]
fn a_tolerance_of_zero_is_the_strictest_not_none() {
    let verifier = Verifier::new([secret(b"s3cret")]).max_skew_s(0);
    let signed = SignedHeaders::new(&secret(b"s3cret"), NOW, BODY);
    let at = |now| verifier.verify_values(signed.timestamp(), signed.signature(), BODY, now);
    assert_eq!(at(NOW), Ok(0));
    for (now, direction) in [
        (NOW + 1, SkewDirection::Behind),
        (NOW - 1, SkewDirection::Ahead),
    ] {
        let skew_s = 1;
        assert_eq!(at(now), Err(VerifyError::Stale { skew_s, direction }));
    }
}

#[test]
fn a_timestamp_that_is_no_number_never_skips_the_skew_check() {
    for text in ["NaN", "nan", "inf", "-inf", "Infinity", "null", "1e99", ""] {
        assert_eq!(
            Verifier::new([secret(b"s3cret")]).verify_values(
                text,
                sign(&secret(b"s3cret"), NOW, BODY).header_value(),
                BODY,
                NOW
            ),
            Err(VerifyError::BadTimestamp)
        );
    }
}

#[test]
fn milliseconds_are_stale_and_the_skew_says_so() {
    let signed = SignedHeaders::new(&secret(b"s3cret"), NOW * 1000, BODY);
    assert_eq!(
        verify(&signed, BODY, NOW),
        Err(VerifyError::Stale {
            skew_s: 1_763_766_468_000,
            direction: SkewDirection::Ahead
        })
    );
}

#[test]
fn a_clock_at_1970_or_at_either_end_of_time_gives_a_verdict() {
    let signed = SignedHeaders::new(&secret(b"s3cret"), NOW, BODY);
    for now in [0, i64::MAX, i64::MIN] {
        let direction = if now > NOW {
            SkewDirection::Behind
        } else {
            SkewDirection::Ahead
        };
        let skew_s = now.abs_diff(NOW);
        assert_eq!(
            verify(&signed, BODY, now),
            Err(VerifyError::Stale { skew_s, direction })
        );
    }

    let booted = SignedHeaders::new(&secret(b"s3cret"), 0, BODY);
    assert_eq!(verify(&booted, BODY, 12), Ok(0), "both clocks at the epoch");
    let before = SignedHeaders::new(&secret(b"s3cret"), -1, BODY);
    assert_eq!(verify(&before, BODY, 0), Err(VerifyError::BadTimestamp));
}

#[test]
fn white_space_in_a_configured_secret_is_refused_on_both_sides_of_it() {
    for value in [b"s3cret\n".as_slice(), b" s3cret"] {
        assert_eq!(
            Secret::from_config(value).unwrap_err(),
            SecretError::OuterWhitespace
        );
    }
    // Taken exactly, it is another secret: this is why it is refused at start.
    let signed = SignedHeaders::new(&secret(b"s3cret\n"), NOW, BODY);
    assert_eq!(verify(&signed, BODY, NOW), Err(VerifyError::Mismatch));
}

#[test]
fn a_retry_verifies_only_when_it_is_signed_again() {
    let first = SignedHeaders::new(&secret(b"s3cret"), NOW, BODY);
    let late = NOW + 600;
    let again = SignedHeaders::new(&secret(b"s3cret"), late, BODY);
    assert!(matches!(
        verify(&first, BODY, late),
        Err(VerifyError::Stale { .. })
    ));
    assert_eq!(verify(&again, BODY, late), Ok(0));

    // A fresh timestamp on the old signature does not help.
    assert_eq!(
        Verifier::new([secret(b"s3cret")]).verify_values(
            again.timestamp(),
            first.signature(),
            BODY,
            late
        ),
        Err(VerifyError::Mismatch)
    );
}

#[test]
fn headers_joined_into_one_are_malformed() {
    let signed = SignedHeaders::new(&secret(b"s3cret"), NOW, BODY);
    let verifier = Verifier::new([secret(b"s3cret")]);
    let joined = |value: &str| format!("{value}, {value}");
    assert_eq!(
        verifier.verify_values(joined(signed.timestamp()), signed.signature(), BODY, NOW),
        Err(VerifyError::BadTimestamp)
    );
    assert_eq!(
        verifier.verify_values(signed.timestamp(), joined(signed.signature()), BODY, NOW),
        Err(VerifyError::MalformedSignature)
    );
}

#[test]
fn the_server_header_is_not_signed_so_the_receiver_must_compare_it() {
    let signed = SignedHeaders::new(&secret(b"s3cret"), NOW, BODY);
    let headers = Headers::from_pairs([
        ("x-rvc-server", "another"),
        ("x-rvc-timestamp", signed.timestamp()),
        ("x-rvc-signature", signed.signature()),
    ])
    .unwrap();
    let verifier = Verifier::new([secret(b"s3cret")]);
    assert_eq!(verifier.verify(&headers, BODY, NOW), Ok(0));
    assert_eq!(headers.server(), b"another");
}

#[test]
fn digits_cannot_move_between_the_timestamp_and_the_body() {
    let verifier = Verifier::new([secret(b"s3cret")]).max_skew_s(u64::MAX);
    let signature = sign(&secret(b"s3cret"), 17655, b"32000.{}");
    let verdict =
        |timestamp, body| verifier.verify_values(timestamp, signature.header_value(), body, NOW);
    assert_eq!(verdict("17655", b"32000.{}".as_slice()), Ok(0));
    for (timestamp, body) in [
        ("1765532000", b"{}".as_slice()),
        ("1765532000", b".{}"),
        ("1765532", b"000.{}"),
    ] {
        assert_eq!(verdict(timestamp, body), Err(VerifyError::Mismatch));
    }
}

#[test]
fn a_secret_can_be_rotated_without_losing_an_event() {
    let (old, new) = (secret(b"old"), secret(b"new"));
    let by_old = SignedHeaders::new(&old, NOW, BODY);
    let by_new = SignedHeaders::new(&new, NOW, BODY);
    let verdict = |secrets: &[Secret], signed: &SignedHeaders| {
        Verifier::new(secrets).verify_values(signed.timestamp(), signed.signature(), BODY, NOW)
    };

    let both = [new.clone(), old];
    assert_eq!(verdict(&both, &by_new), Ok(0));
    assert_eq!(verdict(&both, &by_old), Ok(1));
    assert_eq!(verdict(&[new], &by_old), Err(VerifyError::Mismatch));
}

#[test]
fn without_a_secret_nothing_verifies() {
    let verifier = Verifier::new(Vec::<Secret>::new());
    let signed = SignedHeaders::new(&secret(b"s3cret"), NOW, BODY);
    assert_eq!(
        verifier.verify_values(signed.timestamp(), signed.signature(), BODY, NOW),
        Err(VerifyError::Mismatch)
    );
}

#[test]
fn the_first_check_that_fails_is_the_verdict() {
    let good = sign(&secret(b"s3cret"), NOW, BODY);
    let other = sign(&secret(b"other"), NOW, BODY);
    let (text, late) = ("1765532000", NOW + 301);
    for (timestamp, signature, now, verdict) in [
        ("x", "x", late, "bad_timestamp"),
        ("x", other.header_value(), late, "bad_timestamp"),
        (text, "x", late, "malformed_signature"),
        (text, good.hex(), late, "malformed_signature"),
        (text, other.header_value(), late, "stale"),
        (text, other.header_value(), NOW, "mismatch"),
    ] {
        let error = Verifier::new([secret(b"s3cret")])
            .verify_values(timestamp, signature, BODY, now)
            .unwrap_err();
        assert_eq!(error.verdict(), verdict);
    }
}

#[test]
fn nothing_public_shows_a_secret() {
    let secret = secret(b"hunter2");
    let verifier = Verifier::new([secret.clone()]);
    let signed = SignedHeaders::new(&secret, NOW, b"other");
    let error = verify(&signed, BODY, NOW).unwrap_err();
    let shown = format!(
        "{secret:?} {verifier:?} {signed:?} {:?} {error} {error:?}",
        sign(&secret, NOW, BODY)
    );
    // Neither as text nor as the numbers or hex of its bytes.
    for form in ["hunter2", "104, 117, 110", "68756e74"] {
        assert!(!shown.contains(form), "{shown}");
    }
}

fn verify(signed: &SignedHeaders, body: &[u8], now: i64) -> Result<usize, VerifyError> {
    Verifier::new([secret(b"s3cret")]).verify_values(
        signed.timestamp(),
        signed.signature(),
        body,
        now,
    )
}
