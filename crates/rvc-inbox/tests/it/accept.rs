use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use rvc_inbox::{Inbox, InboxError, Kind, Sighting};
use rvc_sign::{SERVER_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use rvc_wire::EventType;
use serde_json::Value;

use crate::sender::{NOW, builder, event, headers, inbox, post, secret};

#[test]
fn a_signed_event_is_new_once_and_a_duplicate_after_that() {
    let mut inbox = inbox();
    let sent = event("nav-7f3a2b", 0, 1);
    let (headers, body) = post(&sent, NOW);

    let first = inbox.accept(&headers, &body, NOW).unwrap();
    assert_eq!(first.event, sent);
    assert_eq!((first.kind, first.sighting), (Kind::New, Sighting::First));
    assert_eq!(first.secret_index, 1);
    assert!(!first.should_poll());

    // Another attempt has another timestamp and signature.
    let (headers, body) = post(&sent, NOW + 31);
    let again = inbox.accept(&headers, &body, NOW + 31).unwrap();
    assert_eq!(again.kind, Kind::Duplicate);
    assert_eq!(again.gap, None);
    assert!(!again.should_poll());
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is one table")]
fn every_fault_has_its_verdict_and_status() {
    let body = event("nav-7f3a2b", 0, 1).to_json();
    let good = headers("navigation", "s3cret", NOW, &body);
    let without = |name: &str| {
        let mut headers = good.clone();
        headers.remove(name);
        headers
    };
    let with = |name: &'static str, value: &'static [u8]| {
        let mut headers = good.clone();
        headers.insert(name, HeaderValue::from_bytes(value).unwrap());
        headers
    };
    let twice = |name: &'static str| {
        let mut headers = good.clone();
        let value = headers[name].clone();
        headers.append(name, value);
        headers
    };
    let no_event = b"{\"seq\": 0}".to_vec();
    let reserialised = [b" ".as_slice(), &body].concat();
    for (name, headers, body, now, verdict, status) in [
        (
            "no headers",
            HeaderMap::new(),
            &body,
            NOW,
            "missing_header",
            401,
        ),
        (
            "no server",
            without(SERVER_HEADER),
            &body,
            NOW,
            "missing_header",
            401,
        ),
        (
            "no timestamp",
            without(TIMESTAMP_HEADER),
            &body,
            NOW,
            "missing_header",
            401,
        ),
        (
            "no signature",
            without(SIGNATURE_HEADER),
            &body,
            NOW,
            "missing_header",
            401,
        ),
        (
            "two servers",
            twice(SERVER_HEADER),
            &body,
            NOW,
            "duplicate_header",
            401,
        ),
        (
            "two timestamps",
            twice(TIMESTAMP_HEADER),
            &body,
            NOW,
            "duplicate_header",
            401,
        ),
        (
            "two signatures",
            twice(SIGNATURE_HEADER),
            &body,
            NOW,
            "duplicate_header",
            401,
        ),
        (
            "a server that is not known",
            with(SERVER_HEADER, b"lidar"),
            &body,
            NOW,
            "unknown_server",
            401,
        ),
        (
            "a server that is no name",
            with(SERVER_HEADER, b"\xff\xfe"),
            &body,
            NOW,
            "unknown_server",
            401,
        ),
        (
            "a server's name in another case",
            with(SERVER_HEADER, b"Navigation"),
            &body,
            NOW,
            "unknown_server",
            401,
        ),
        (
            "a time in words",
            with(TIMESTAMP_HEADER, b"NaN"),
            &body,
            NOW,
            "bad_timestamp",
            401,
        ),
        (
            "no sha256=",
            with(SIGNATURE_HEADER, b"00"),
            &body,
            NOW,
            "malformed_signature",
            401,
        ),
        ("301 s late", good.clone(), &body, NOW + 301, "stale", 401),
        ("301 s early", good.clone(), &body, NOW - 301, "stale", 401),
        (
            "milliseconds",
            headers("navigation", "s3cret", NOW * 1_000, &body),
            &body,
            NOW,
            "stale",
            401,
        ),
        (
            "another secret",
            headers("navigation", "perc", NOW, &body),
            &body,
            NOW,
            "mismatch",
            401,
        ),
        (
            "re-serialised JSON",
            good.clone(),
            &reserialised,
            NOW,
            "mismatch",
            401,
        ),
        (
            "unsigned rubbish",
            good.clone(),
            &b"\x00".to_vec(),
            NOW,
            "mismatch",
            401,
        ),
        (
            "signed rubbish",
            headers("navigation", "s3cret", NOW, b""),
            &Vec::new(),
            NOW,
            "not_an_event",
            400,
        ),
        (
            "signed, no event",
            headers("navigation", "s3cret", NOW, &no_event),
            &no_event,
            NOW,
            "not_an_event",
            400,
        ),
        (
            "another server's event",
            headers("perception", "perc", NOW, &body),
            &body,
            NOW,
            "other_server",
            401,
        ),
    ] {
        let rejection = inbox().accept(&headers, body, now).expect_err(name);
        assert_eq!(rejection.verdict(), verdict, "{name}: {rejection}");
        assert_eq!(rejection.status().as_u16(), status, "{name}");
        let shown = format!("{rejection} {rejection:?}");
        assert!(
            !shown.contains("s3cret") && !shown.contains("n3w"),
            "{name}: {shown}"
        );
    }
}

#[test]
fn a_skew_of_300_s_passes_in_either_direction() {
    for now in [NOW - 300, NOW, NOW + 300] {
        let (headers, body) = post(&event("nav-7f3a2b", 0, 1), NOW);
        assert!(inbox().accept(&headers, &body, now).is_ok());
    }
}

#[test]
fn a_stale_event_says_by_how_much_and_in_which_direction() {
    let (headers, body) = post(&event("nav-7f3a2b", 0, 1), NOW);
    for (now, reason) in [
        (NOW + 301, "timestamp is 301 s behind the receiver's clock"),
        (
            NOW - 900,
            "timestamp is 900 s ahead of the receiver's clock",
        ),
    ] {
        let rejection = inbox().accept(&headers, &body, now).unwrap_err();
        assert_eq!(rejection.to_string(), reason);
    }
}

#[test]
fn what_is_refused_is_not_remembered() {
    let mut inbox = inbox();
    let sent = event("nav-7f3a2b", 0, 1);
    let body = sent.to_json();
    let forged = headers("navigation", "guess", NOW, &body);
    assert!(inbox.accept(&forged, &body, NOW).is_err());
    let (stale, body) = post(&sent, NOW - 301);
    assert!(inbox.accept(&stale, &body, NOW).is_err());

    let (headers, body) = post(&sent, NOW);
    assert_eq!(inbox.accept(&headers, &body, NOW).unwrap().kind, Kind::New);
}

#[test]
fn what_is_examined_and_not_remembered_is_new_again() {
    let mut inbox = inbox();
    let (headers, body) = post(&event("nav-7f3a2b", 0, 1), NOW);
    let examined = inbox.examine(&headers, &body, NOW).unwrap();
    assert_eq!(inbox.examine(&headers, &body, NOW).unwrap().kind, Kind::New);
    inbox.remember(&examined);
    let again = inbox.examine(&headers, &body, NOW).unwrap();
    assert_eq!(again.kind, Kind::Duplicate);
}

#[test]
fn a_body_over_the_limit_is_refused_before_anything_else() {
    let mut inbox = builder().max_body_bytes(100).build().unwrap();
    for (bytes, verdict) in [(100, "missing_header"), (101, "too_large")] {
        let body = vec![b' '; bytes];
        let rejection = inbox.accept(&HeaderMap::new(), &body, NOW).unwrap_err();
        assert_eq!(rejection.verdict(), verdict);
    }
}

#[test]
fn a_body_of_one_mebibyte_is_accepted() {
    let mut sent = event("nav-7f3a2b", 0, 1);
    let spare = (1 << 20) - sent.to_json().len() - r#""x":"""#.len();
    sent.payload
        .insert("x".into(), Value::from("x".repeat(spare)));
    let (headers, body) = post(&sent, NOW);
    assert_eq!(body.len(), 1 << 20);
    assert!(inbox().accept(&headers, &body, NOW).is_ok());
}

#[test]
fn an_event_of_a_newer_schema_is_accepted() {
    let mut sent = event("nav-7f3a2b", 0, 1);
    sent.event_type = EventType::Unknown("task_paused".into());
    sent.schema_version = 2;
    let (headers, body) = post(&sent, NOW);
    assert_eq!(inbox().accept(&headers, &body, NOW).unwrap().event, sent);
}

#[test]
fn the_same_event_id_of_two_servers_is_two_events() {
    let mut inbox = inbox();
    let mut sent = event("nav-7f3a2b", 0, 1);
    let (navigation, body) = post(&sent, NOW);
    inbox.accept(&navigation, &body, NOW).unwrap();

    sent.server = "perception".parse().unwrap();
    let body = sent.to_json();
    let perception = headers("perception", "perc", NOW, &body);
    let accepted = inbox.accept(&perception, &body, NOW).unwrap();
    assert_eq!(
        (accepted.kind, accepted.sighting),
        (Kind::New, Sighting::First)
    );
}

#[test]
fn a_gap_and_a_second_task_of_the_same_id_ask_for_a_poll() {
    let mut inbox = inbox();
    for (creation, seq, sighting, gap) in [
        (0, 1, Sighting::First, None),
        (0, 4, Sighting::Known, Some("seq 2 to 3 are missing")),
        (0, 6, Sighting::Known, Some("seq 5 is missing")),
        (0, 2, Sighting::Late, None),
        (1, 1, Sighting::Again, None),
    ] {
        let (headers, body) = post(&event("nav-7f3a2b", creation, seq), NOW);
        let accepted = inbox.accept(&headers, &body, NOW).unwrap();
        assert_eq!(accepted.kind, Kind::New);
        assert_eq!(accepted.sighting, sighting);
        assert_eq!(accepted.gap.map(|gap| gap.to_string()).as_deref(), gap);
        assert_eq!(accepted.should_poll(), sighting != Sighting::First);
    }
}

#[test]
fn an_inbox_that_could_accept_nothing_is_refused() {
    let navigation = || "navigation".parse().unwrap();
    let good = || Inbox::builder().server(navigation(), [secret("s3cret")]);
    for (builder, error) in [
        (Inbox::builder(), InboxError::NoServer),
        (
            Inbox::builder().server(navigation(), []),
            InboxError::NoSecret {
                server: navigation(),
            },
        ),
        (
            good().max_body_bytes(0),
            InboxError::ZeroLimit {
                name: "max_body_bytes",
            },
        ),
        (
            good().remembered_events(0),
            InboxError::ZeroLimit {
                name: "remembered_events",
            },
        ),
        (
            good().tracked_tasks(0),
            InboxError::ZeroLimit {
                name: "tracked_tasks",
            },
        ),
    ] {
        assert_eq!(builder.build().unwrap_err(), error);
    }
}

proptest! {
    #[test]
    fn arbitrary_headers_and_bodies_never_panic_and_never_verify(
        server in prop::option::of(prop_oneof![Just(b"navigation".to_vec()), value()]),
        timestamp in prop::option::of(prop_oneof![Just(NOW.to_string().into_bytes()), value()]),
        signature in prop::option::of(prop_oneof!["sha256=[0-9a-f]{64}".prop_map(String::into_bytes), value()]),
        body in prop::collection::vec(any::<u8>(), 0..200),
        now in any::<i64>(),
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (SERVER_HEADER, server),
            (TIMESTAMP_HEADER, timestamp),
            (SIGNATURE_HEADER, signature),
        ] {
            if let Some(value) = value {
                headers.append(name, HeaderValue::from_bytes(&value).unwrap());
            }
        }
        prop_assert!(inbox().accept(&headers, &body, now).is_err());
    }

    #[test]
    fn signed_bodies_of_any_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let headers = headers("navigation", "n3w", NOW, &body);
        let rejection = inbox().accept(&headers, &body, NOW).unwrap_err();
        prop_assert_eq!(rejection.verdict(), "not_an_event");
    }
}

/// Any bytes that a header value can have.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(b'\t'), 0x20..=0x7e_u8, 0x80..=0xff_u8];
    prop::collection::vec(byte, 0..80)
}
