//! A request's header map from the `http` crate, as it comes.

use http::{HeaderMap, HeaderValue};
use rvc_sign::{
    Headers, SERVER_HEADER, SIGNATURE_HEADER, SignedHeaders, TIMESTAMP_HEADER, Verifier,
    VerifyError,
};

use crate::{NOW, secret};

#[test]
fn a_header_map_verifies_as_it_is() {
    let map = signed(b"{}");
    let headers = Headers::from_pairs(&map).unwrap();
    assert_eq!(headers.server(), b"navigation");
    assert_eq!(
        Verifier::new([secret(b"s3cret")]).verify(&headers, b"{}", NOW),
        Ok(0)
    );
}

#[test]
fn a_value_that_a_header_map_would_hide_is_a_duplicate() {
    for name in [SERVER_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER] {
        let mut map = signed(b"{}");
        let same = map[name].clone();
        map.append(name, same);
        assert_eq!(
            Headers::from_pairs(&map),
            Err(VerifyError::DuplicateHeader { name })
        );
    }
}

#[test]
fn header_bytes_that_are_no_text_get_a_verdict() {
    for (name, verdict) in [
        (TIMESTAMP_HEADER, VerifyError::BadTimestamp),
        (SIGNATURE_HEADER, VerifyError::MalformedSignature),
    ] {
        let mut map = signed(b"{}");
        map.insert(name, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
        let headers = Headers::from_pairs(&map).unwrap();
        assert_eq!(
            Verifier::new([secret(b"s3cret")]).verify(&headers, b"{}", NOW),
            Err(verdict)
        );
    }
}

fn signed(body: &[u8]) -> HeaderMap {
    let signed = SignedHeaders::new(&secret(b"s3cret"), NOW, body);
    let mut map = HeaderMap::new();
    map.insert("content-type", HeaderValue::from_static("application/json"));
    map.insert(SERVER_HEADER, HeaderValue::from_static("navigation"));
    map.insert(TIMESTAMP_HEADER, signed.timestamp().parse().unwrap());
    map.insert(SIGNATURE_HEADER, signed.signature().parse().unwrap());
    map
}
