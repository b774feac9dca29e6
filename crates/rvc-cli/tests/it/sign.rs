use std::iter;

use serde_json::Value;

use crate::rvc::{answer, command, run};

fn body(case: &Value) -> Vec<u8> {
    if let Some(hex) = case["body_hex"].as_str() {
        return (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
    }
    let repeat = &case["body_repeat"];
    let byte = u8::try_from(repeat["byte"].as_u64().unwrap()).unwrap();
    let count = usize::try_from(repeat["count"].as_u64().unwrap()).unwrap();
    iter::repeat_n(byte, count).collect()
}

#[test]
fn every_signature_of_the_vectors_is_printed() {
    let cases = include_str!("../../../rvc-sign/tests/it/vectors/sign.json");
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let timestamp = case["timestamp"].to_string();
        let answer = run(
            [
                "sign",
                "--secret-hex",
                case["secret_hex"].as_str().unwrap(),
                "--timestamp",
                &timestamp,
            ],
            body(&case),
        );
        assert_eq!(
            answer.stdout,
            format!("sha256={}\n", case["signature"].as_str().unwrap()),
            "{}",
            case["name"]
        );
        assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
    }
}

#[test]
fn headers_are_printed_for_curl() {
    let answer = run(
        [
            "sign",
            "--secret",
            "s3cret",
            "--timestamp",
            "1765532000",
            "--headers",
        ],
        "",
    );
    assert_eq!(
        answer.stdout,
        "X-RVC-Timestamp: 1765532000\nX-RVC-Signature: \
         sha256=749c43f515532ab88ec9261c9e76e29b4aa57c24824d4429f468e6e30519a070\n"
    );
}

#[test]
fn headers_without_a_timestamp_verify_now() {
    let signed = run(["sign", "--secret", "s3cret", "--headers"], "body");
    let values: Vec<&str> = signed
        .stdout
        .lines()
        .map(|line| line.split_once(": ").unwrap().1)
        .collect();
    let verified = run(
        [
            "verify",
            "--secret",
            "s3cret",
            "--timestamp-header",
            values[0],
            "--signature-header",
            values[1],
        ],
        "body",
    );
    assert_eq!((verified.code, verified.stdout.as_str()), (0, "ok\n"));
}

#[test]
fn a_secret_is_taken_from_a_file_or_the_environment_as_a_server_takes_it() {
    let file = std::env::temp_dir().join(format!("rvc-secret-{}", std::process::id()));
    std::fs::write(&file, "s3cret\n").unwrap();
    let sign = ["sign", "--timestamp", "1765532000"];
    let of = |name: &str, value: &std::ffi::OsStr| answer(command(sign).env(name, value), "");
    let answers = [
        run(
            sign.into_iter()
                .chain(["--secret-file", file.to_str().unwrap()]),
            "",
        ),
        of("RVC_EVENT_SECRET", "s3cret".as_ref()),
        of("RVC_EVENT_SECRET_FILE", file.as_ref()),
    ];
    std::fs::remove_file(&file).unwrap();
    for answer in answers {
        assert!(
            answer.stdout.starts_with("sha256=749c43f5"),
            "{}",
            answer.stderr
        );
    }
}

#[test]
fn what_cannot_be_a_secret_or_a_time_is_refused_and_never_shown() {
    let at = |more: &[&'static str]| [&["sign", "--timestamp", "1"], more].concat();
    for (arguments, reason) in [
        (at(&[]), "no secret is given"),
        (at(&["--secret", ""]), "the secret is empty"),
        (
            at(&["--secret", "hunter2\n"]),
            "begins or ends with white space",
        ),
        (
            at(&["--secret-hex", "hunter2"]),
            "no even number of hex digits",
        ),
        (at(&["--secret-hex", ""]), "the secret is empty"),
        (
            at(&["--secret", "hunter2", "--secret-hex", "00"]),
            "cannot be used with",
        ),
        (
            at(&["--secret-file", "/does/not/exist"]),
            "cannot read /does/not/exist",
        ),
        (vec!["sign", "--secret", "hunter2"], "--timestamp"),
        (
            vec!["sign", "--secret", "hunter2", "--timestamp=-5"],
            "--timestamp",
        ),
        (
            vec!["sign", "--secret", "hunter2", "--timestamp", "now"],
            "--timestamp",
        ),
    ] {
        let answer = run(&arguments, "");
        assert_eq!(
            (answer.code, answer.stdout.as_str()),
            (2, ""),
            "{arguments:?}"
        );
        assert!(
            answer.stderr.contains(reason),
            "{arguments:?}: {}",
            answer.stderr
        );
        assert!(!answer.stderr.contains("hunter2"), "{}", answer.stderr);
    }
    let both = answer(
        command(at(&[]))
            .env("RVC_EVENT_SECRET", "a")
            .env("RVC_EVENT_SECRET_FILE", "b"),
        "",
    );
    assert!(both.stderr.contains("are both set"), "{}", both.stderr);
}

#[test]
fn quotes_around_a_secret_warn() {
    let answer = run(["sign", "--secret", "\"s3cret\"", "--timestamp", "1"], "");
    assert_eq!(answer.code, 0);
    let line: Value = serde_json::from_str(answer.stderr.trim()).unwrap();
    assert_eq!(line["level"], "WARN");
    assert!(!answer.stderr.contains("s3cret"));
}
