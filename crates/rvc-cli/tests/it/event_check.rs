use serde_json::Value;

use crate::rvc::run;

fn cases(verdict: &str) -> Vec<Value> {
    let vectors = include_str!("../../../rvc-wire/tests/it/vectors/events.json");
    let vectors: Value = serde_json::from_str(vectors).unwrap();
    let cases = vectors[verdict].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

#[test]
fn every_event_that_the_vectors_accept_is_printed_on_one_line() {
    for case in cases("accept") {
        let answer = run(["event", "check"], case["event"].to_string());
        assert_eq!(answer.code, 0, "{}: {}", case["name"], answer.stdout);
        assert_eq!(answer.stdout.lines().count(), 1);
        let printed: Value = serde_json::from_str(&answer.stdout).unwrap();
        assert_eq!(printed["event_id"], case["event"]["event_id"]);

        // Normalised once, it stays as it is.
        let again = run(["event", "check"], &answer.stdout);
        assert_eq!(again.stdout, answer.stdout, "{}", case["name"]);
    }
}

#[test]
fn every_event_that_the_vectors_reject_has_a_reason() {
    for case in cases("reject") {
        let answer = run(["event", "check"], case["event"].to_string());
        assert_eq!(answer.code, 1, "{}", case["name"]);
        assert!(
            answer.stdout.starts_with("body is no task event: "),
            "{}",
            answer.stdout
        );
        assert_eq!(answer.stdout.lines().count(), 1);
    }
}

#[test]
fn rubbish_has_a_reason_and_never_panics() {
    for input in [
        b"".as_slice(),
        b"\xff\xfe",
        b"{",
        b"[[[[",
        b"null",
        b"\x1b[2J",
    ] {
        let answer = run(["event", "check"], input);
        assert_eq!(answer.code, 1);
        assert!(!answer.stdout.contains('\u{1b}'));
    }
}
