use std::process::Stdio;

use serde_json::Value;

use crate::rvc::{Answer, command, run};

const BODY: &str = r#"{"a":1,"b":"ü"}"#;

fn sign(secret: &str, timestamp: &str, body: &str) -> String {
    let answer = run(
        [
            "sign",
            "--secret-hex",
            &hex(secret),
            "--timestamp",
            timestamp,
        ],
        body,
    );
    answer.stdout.trim_end().to_owned()
}

fn hex(text: &str) -> String {
    let digits: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn verify(secret: &str, timestamp: &str, signature: &str, now: &str, body: &str) -> Answer {
    run(
        [
            "verify",
            "--secret",
            secret,
            "--timestamp-header",
            timestamp,
            "--signature-header",
            signature,
            "--now",
            now,
        ],
        body,
    )
}

#[test]
fn every_verdict_of_the_vectors_is_printed() {
    let cases = include_str!("../../../rvc-sign/tests/it/vectors/verify.json");
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let text = |name: &str| case[name].as_str().unwrap();
        let body: Vec<u8> = (0..text("body_hex").len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text("body_hex")[at..at + 2], 16).unwrap())
            .collect();
        let answer = run(
            [
                "verify",
                "--secret",
                text("secret"),
                "--timestamp-header",
                text("timestamp_header"),
                "--signature-header",
                text("signature_header"),
                "--now",
                &case["now"].to_string(),
            ],
            body,
        );
        let verdict = answer.stdout.split_whitespace().next().unwrap();
        assert_eq!(verdict, text("verdict"), "{}", text("name"));
        assert_eq!(answer.stdout.lines().count(), 1);
        assert_eq!(answer.code, i32::from(verdict != "ok"), "{}", text("name"));
    }
}

#[test]
fn stale_says_by_how_much_and_in_which_direction() {
    let signature = sign("s3cret", "1000", BODY);
    for (now, line) in [
        ("1301", "stale 301 s behind\n"),
        ("699", "stale 301 s ahead\n"),
        ("-1000", "stale 2000 s ahead\n"),
    ] {
        let answer = verify("s3cret", "1000", &signature, now, BODY);
        assert_eq!((answer.code, answer.stdout.as_str()), (1, line));
        assert!(answer.stderr.contains("the signature itself is right"));
    }
}

#[test]
fn the_usual_causes_are_found() {
    let now = "1765532000";
    let milliseconds = "1765532000123";
    let spaced = r#"{"a": 1, "b": "\u00fc"}"#;
    for (signed_secret, signed_at, signed_body, secret, signature_cut, body, hint) in [
        (
            "s",
            now,
            BODY,
            "s",
            "",
            "{\"a\":1,\"b\":\"ü\"}\n",
            "without the line ending",
        ),
        (
            "s",
            now,
            "x\n",
            "s",
            "",
            "x",
            "with a line ending after the body",
        ),
        (
            "s",
            now,
            BODY,
            "s",
            "",
            r#"{ "a": 1, "b": "ü" }"#,
            "JSON without spaces",
        ),
        ("s", now, spaced, "s", "", BODY, "json.dumps"),
        (
            "s\n",
            now,
            BODY,
            "s",
            "",
            BODY,
            "line ending after the secret",
        ),
        ("s", now, BODY, "'s'", "", BODY, "without the quotes"),
        (
            "\"s\"",
            now,
            BODY,
            "s",
            "",
            BODY,
            "with quotes around the secret",
        ),
        ("s", now, BODY, "73", "", BODY, "hex digits stand for"),
        (
            "s",
            now,
            BODY,
            "other",
            "",
            BODY,
            "raw bytes of the request",
        ),
        (
            "s",
            milliseconds,
            BODY,
            "s",
            "",
            BODY,
            "looks like milliseconds",
        ),
        (
            "s",
            now,
            BODY,
            "s",
            "sha256=",
            BODY,
            "does not begin with sha256=",
        ),
    ] {
        let signature = sign(signed_secret, signed_at, signed_body);
        let signature = signature.strip_prefix(signature_cut).unwrap();
        let answer = verify(secret, signed_at, signature, now, body);
        assert_eq!(answer.code, 1);
        assert!(answer.stderr.contains(hint), "{hint}: {}", answer.stderr);
    }
}

#[test]
fn both_headers_must_be_given() {
    for missing in ["--timestamp-header", "--signature-header"] {
        let mut arguments = vec!["verify", "--secret", "s"];
        for name in ["--timestamp-header", "--signature-header"] {
            if name != missing {
                arguments.extend([name, "x"]);
            }
        }
        let answer = run(&arguments, "");
        assert_eq!(answer.code, 2);
        assert!(answer.stderr.contains(missing));
    }
}

#[test]
fn nobody_reading_the_output_is_no_panic() {
    let mut command = command([
        "verify",
        "--secret",
        "s",
        "--timestamp-header",
        "1",
        "--signature-header",
        "x",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
