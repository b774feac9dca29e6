//! Golden vectors: signatures and verdicts computed by `CPython`.

use std::collections::BTreeSet;

use rvc_sign::{Headers, SignedHeaders, Verifier, sign};
use serde::Deserialize;

use crate::secret;

#[test]
fn signatures_are_those_of_the_contracts_python() {
    let cases: Vec<SignCase> = serde_json::from_str(include_str!("vectors/sign.json")).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let secret = secret(&bytes(&case.secret_hex));
        let body = match (&case.body_hex, &case.body_repeat) {
            (Some(hex), None) => bytes(hex),
            (None, Some(repeat)) => vec![repeat.byte; repeat.count],
            _ => panic!("{}: one form of body", case.name),
        };

        let signature = sign(&secret, case.timestamp, &body);
        assert_eq!(signature.hex(), case.signature, "{}", case.name);
        let header = format!("sha256={}", case.signature);
        assert_eq!(signature.header_value(), header, "{}", case.name);
        let signed = SignedHeaders::new(&secret, case.timestamp, &body);
        assert_eq!(signed.signature(), header, "{}", case.name);
        assert_eq!(signed.timestamp(), case.timestamp.to_string());

        let verifier = Verifier::new([secret]);
        let verdict = verifier.verify_values(
            signed.timestamp(),
            signed.signature(),
            &body,
            case.timestamp,
        );
        assert_eq!(verdict, Ok(0), "{}", case.name);
    }
}

#[test]
fn verdicts_are_those_of_the_contracts_python() {
    let cases: Vec<VerifyCase> = serde_json::from_str(include_str!("vectors/verify.json")).unwrap();
    let mut verdicts = BTreeSet::new();
    for case in cases {
        let verifier = Verifier::new([secret(case.secret.as_bytes())]);
        let headers = Headers::from_pairs([
            ("x-rvc-server", "navigation"),
            ("x-rvc-timestamp", &case.timestamp_header),
            ("x-rvc-signature", &case.signature_header),
        ])
        .unwrap();

        let outcome = verifier.verify(&headers, &bytes(&case.body_hex), case.now);

        let verdict = outcome.map_or_else(|error| error.verdict(), |_| "ok");
        assert_eq!(verdict, case.verdict, "{}", case.name);
        verdicts.insert(case.verdict);
    }
    assert_eq!(
        verdicts.iter().map(String::as_str).collect::<Vec<_>>(),
        [
            "bad_timestamp",
            "malformed_signature",
            "mismatch",
            "ok",
            "stale"
        ]
    );
}

#[derive(Deserialize)]
struct SignCase {
    name: String,
    secret_hex: String,
    timestamp: i64,
    body_hex: Option<String>,
    body_repeat: Option<Repeat>,
    signature: String,
}

#[derive(Deserialize)]
struct Repeat {
    byte: u8,
    count: usize,
}

#[derive(Deserialize)]
struct VerifyCase {
    name: String,
    secret: String,
    timestamp_header: String,
    body_hex: String,
    signature_header: String,
    now: i64,
    verdict: String,
}

fn bytes(hex: &str) -> Vec<u8> {
    let (pairs, _) = hex.as_bytes().as_chunks::<2>();
    pairs
        .iter()
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
