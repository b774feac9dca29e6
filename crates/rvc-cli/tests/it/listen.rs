use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command};
use std::time::{Duration, Instant};

use rvc_sign::{Secret, SignedHeaders};
use serde_json::{Value, json};

use crate::rvc::{command, run};

/// A running `rvc listen`. Ended when it is dropped.
struct Listening {
    child: Child,
    address: String,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Listening {
    fn start(arguments: &[&str]) -> Self {
        let always = ["listen", "--addr", "127.0.0.1:0"];
        let mut child = command(always.iter().chain(arguments)).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let address = loop {
            let line = read_line(&mut stderr);
            let log: Value = serde_json::from_str(&line).expect(&line);
            if let Some(url) = log["url"].as_str() {
                let rest = url.strip_prefix("http://").unwrap();
                break rest.split_once('/').unwrap().0.to_owned();
            }
        };
        Self {
            child,
            address,
            stdout,
            stderr,
        }
    }

    fn post(&self, server: &str, secret: &str, body: &[u8]) -> String {
        let now = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_secs();
        let secret = Secret::new(secret.as_bytes()).unwrap();
        let signed = SignedHeaders::new(&secret, now.try_into().unwrap(), body);
        let head = format!(
            "POST /api/agent/events HTTP/1.1\r\nHost: brain\r\nConnection: close\r\n\
             X-RVC-Server: {server}\r\nX-RVC-Timestamp: {}\r\nX-RVC-Signature: {}\r\n\
             Content-Length: {}\r\n\r\n",
            signed.timestamp(),
            signed.signature(),
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat())
    }

    fn send(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // Longer than any answer may take.
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        answer.lines().next().unwrap_or_default()["HTTP/1.1 ".len()..].to_owned()
    }

    fn line(&mut self) -> String {
        read_line(&mut self.stdout)
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Its exit code, though nobody reads what it prints and logs.
    fn ends_unread(mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Posts events until the pipe takes no more. Answers the first that it did not take whole.
    fn fill_pipe(&self) -> u64 {
        for seq in 1.. {
            let answer = self.post("navigation", "s3cret", &large(seq, LARGE));
            if answer.starts_with("503") {
                return seq;
            }
            assert_eq!(answer, "200 OK");
        }
        unreachable!("a pipe has an end")
    }

    /// Ends it as systemd does, and answers its exit code and what it still printed.
    fn terminate(mut self) -> (Option<i32>, String, String) {
        self.signal("-TERM");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stdout, stderr)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

fn event(id: &str, seq: u64) -> Vec<u8> {
    json!({
        "event_id": id, "task_id": "navi-7f3a2b", "server": "navigation", "tool": "navigate_to",
        "type": "progress", "seq": seq, "ts": "2026-06-12T14:03:00Z", "payload": {"eta_s": 22.4},
    })
    .to_string()
    .into_bytes()
}

fn large(seq: u64, size: usize) -> Vec<u8> {
    json!({
        "event_id": format!("e{seq}"), "task_id": "navi-7f3a2b", "server": "navigation",
        "tool": "navigate_to", "type": "progress", "seq": seq, "ts": "2026-06-12T14:03:00Z",
        "payload": {"filling": "x".repeat(size)},
    })
    .to_string()
    .into_bytes()
}

/// Two of them fill a pipe.
const LARGE: usize = 40_000;

/// Longer than it takes to answer or to end, in any case.
const PATIENCE: Duration = Duration::from_secs(30);

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("rvc-{name}-{}", std::process::id()))
}

#[test]
fn events_are_printed_with_their_verdict_and_duplicates_and_gaps_are_marked() {
    let mut listening = Listening::start(&["--secret", "navigation=s3cret"]);
    for (id, seq) in [("a", 1), ("a", 1), ("b", 4), ("c", 1)] {
        assert_eq!(
            listening.post("navigation", "s3cret", &event(id, seq)),
            "200 OK"
        );
    }
    for facts in [
        [
            "verified",
            "navigation",
            "navi-7f3a2b",
            "#1",
            "navigate_to",
            "progress",
            r#"{"eta_s":22.4}"#,
        ]
        .as_slice(),
        &["duplicate", "#1"],
        &["verified", "#4"],
        &["gap: seq 2 to 3 are missing"],
        &["verified", "#1"],
        &["another task of the same id"],
    ] {
        let line = listening.line();
        for fact in facts {
            assert!(line.contains(fact), "{fact}: {line}");
        }
        assert!(
            !line.contains('\u{1b}'),
            "colour outside a terminal: {line}"
        );
    }
    let (code, stdout, stderr) = listening.terminate();
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
}

#[test]
fn a_refused_request_is_a_line_with_status_verdict_and_reason() {
    let mut listening = Listening::start(&["--secret", "navigation=s3cret"]);
    listening.post("lidar\u{9b}2J", "s3cret", b"{}");
    let line = listening.line();
    assert!(
        line.contains("refused    401 unknown_server: no secret is known for server"),
        "{line}"
    );
    assert!(!line.contains('\u{9b}'), "{line}");
}

#[test]
fn bad_requests_are_answered_and_their_reasons_printed_and_logged() {
    let mut listening = Listening::start(&["--json", "--secret", "navigation=s3cret"]);
    let good = event("a", 1);
    for (answer, status, verdict) in [
        (
            listening.post("navigation", "guess", &good),
            401,
            "mismatch",
        ),
        (
            listening.post("lidar", "s3cret", &good),
            401,
            "unknown_server",
        ),
        (
            listening.post("navigation", "s3cret", b"{}"),
            400,
            "not_an_event",
        ),
        (
            listening.post("navigation", "s3cret", &vec![b' '; 2 << 20]),
            413,
            "too_large",
        ),
        (
            listening.send(
                b"POST /api/agent/events HTTP/1.1\r\nHost: brain\r\nConnection: close\r\n\r\n",
            ),
            401,
            "missing_header",
        ),
    ] {
        assert!(
            answer.starts_with(&status.to_string()),
            "{verdict}: {answer}"
        );
        let line: Value = serde_json::from_str(&listening.line()).unwrap();
        assert_eq!(
            (&line["verdict"], &line["status"]),
            (&json!(verdict), &json!(status))
        );
        assert!(line["reason"].is_string() && line["received_at"].is_string());
    }
    assert!(listening.send(b"\x16\x03\x01\r\n\r\n").starts_with("400"));
    assert_eq!(listening.post("navigation", "s3cret", &good), "200 OK");

    let (code, _, stderr) = listening.terminate();
    assert_eq!(code, Some(0));
    for verdict in [
        "mismatch",
        "unknown_server",
        "not_an_event",
        "too_large",
        "missing_header",
    ] {
        assert!(stderr.contains(verdict), "{verdict}: {stderr}");
    }
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

#[test]
fn json_lines_are_printed_and_recorded_alike() {
    let record = temporary("record");
    let env_file = temporary("env");
    std::fs::write(
        &env_file,
        "# both are valid\nnavigation=old\nnavigation=new\n",
    )
    .unwrap();
    let mut listening = Listening::start(&[
        "--json",
        "--env-file",
        env_file.to_str().unwrap(),
        "--record",
        record.to_str().unwrap(),
    ]);
    assert_eq!(
        listening.post("navigation", "old", &event("a", 1)),
        "200 OK"
    );
    assert_eq!(
        listening.post("navigation", "new", &event("b", 3)),
        "200 OK"
    );
    assert_eq!(
        listening.post("navigation", "new", &event("b", 3)),
        "200 OK"
    );
    let lines = [listening.line(), listening.line(), listening.line()];
    let recorded = std::fs::read_to_string(&record).unwrap();
    std::fs::remove_file(&record).unwrap();
    std::fs::remove_file(&env_file).unwrap();

    assert_eq!(recorded, lines.concat());
    let parsed = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let seen = parsed.each_ref().map(|line| {
        assert_eq!(line["verdict"], "ok");
        (
            line["kind"].as_str().unwrap(),
            line["sighting"].as_str().unwrap(),
            line["gap"].clone(),
        )
    });
    assert_eq!(
        seen,
        [
            ("new", "first", Value::Null),
            ("new", "known", json!({"first": 2, "last": 2})),
            ("duplicate", "known", Value::Null),
        ]
    );
    assert_eq!(parsed[0]["event"]["ts"], "2026-06-12T14:03:00.000Z");
}

#[test]
fn an_event_that_cannot_be_recorded_is_not_acknowledged() {
    let listening = Listening::start(&["--secret", "navigation=s3cret", "--record", "/dev/full"]);
    let answer = listening.post("navigation", "s3cret", &event("a", 1));
    assert!(answer.starts_with("503"), "{answer}");
}

#[test]
fn nobody_reading_the_output_ends_it_quietly() {
    let mut listening = Listening::start(&["--secret", "navigation=s3cret"]);
    let mut unread = command(["--version"]).spawn().unwrap();
    let other = BufReader::new(unread.stdout.take().unwrap());
    drop(std::mem::replace(&mut listening.stdout, other));
    assert!(
        listening
            .post("navigation", "s3cret", &event("a", 1))
            .starts_with("503")
    );
    assert_eq!(listening.child.wait().unwrap().code(), Some(141));
    unread.wait().unwrap();
}

#[test]
fn events_that_a_full_pipe_does_not_take_are_refused_in_time_and_signals_end_it() {
    for signal in ["-TERM", "-INT"] {
        let listening = Listening::start(&["--json", "--secret", "navigation=s3cret"]);

        let full = listening.fill_pipe();
        let again = listening.post("navigation", "s3cret", &large(full, LARGE));

        assert!(again.starts_with("503"), "{again}");
        listening.signal(signal);
        assert_eq!(listening.ends_unread(), Some(0), "{signal}");
    }
}

#[test]
fn an_event_that_a_full_pipe_did_not_take_is_printed_when_the_reader_goes_on() {
    let mut listening = Listening::start(&["--json", "--secret", "navigation=s3cret"]);
    let full = listening.fill_pipe();
    // It was in the pipe in part, so it comes twice.
    let mut seen = Vec::new();
    while seen.last() != Some(&full) {
        let line: Value = serde_json::from_str(&listening.line()).unwrap();
        seen.push(line["event"]["seq"].as_u64().unwrap());
    }
    assert_eq!(seen, (1..=full).collect::<Vec<_>>());

    let again = listening.post("navigation", "s3cret", &large(full, LARGE));

    assert_eq!(again, "200 OK");
    let line: Value = serde_json::from_str(&listening.line()).unwrap();
    assert_eq!(
        (&line["kind"], &line["event"]["seq"]),
        (&json!("new"), &json!(full))
    );
}

#[test]
fn a_full_pipe_keeps_no_event_from_the_record_and_its_reader_is_told_what_it_missed() {
    let record = temporary("unread");
    let mut listening = Listening::start(&[
        "--json",
        "--secret",
        "navigation=s3cret",
        "--record",
        record.to_str().unwrap(),
    ]);
    // More than the pipe and the lines that wait for it.
    let count = 400;
    for seq in 1..=count {
        let answer = listening.post("navigation", "s3cret", &large(seq, LARGE));
        assert_eq!(answer, "200 OK", "{seq}");
    }

    let recorded = std::fs::read_to_string(&record).unwrap();
    let seqs = recorded.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["event"]["seq"].as_u64().unwrap()
    });
    assert_eq!(seqs.collect::<Vec<_>>(), (1..=count).collect::<Vec<_>>());

    let mut shown = 0;
    let missed = loop {
        let line: Value = serde_json::from_str(&listening.line()).unwrap();
        if let Some(missed) = line["not_shown"].as_u64() {
            break missed;
        }
        shown += 1;
        assert_eq!(line["event"]["seq"], shown);
    };
    assert_eq!(shown + missed, count);
    let (code, stdout, _) = listening.terminate();
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    std::fs::remove_file(&record).unwrap();
}

#[test]
fn a_log_that_nobody_reads_keeps_no_signal_from_ending_it() {
    let listening = Listening::start(&["--secret", "navigation=s3cret"]);
    // Each is a line in the log.
    let request = b"POST /api/agent/events HTTP/1.1\r\nHost: brain\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(&listening.address).unwrap();
    loop {
        stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        stream.write_all(request).unwrap();
        let mut answer = [0];
        if stream.read(&mut answer).is_err() {
            break;
        }
        stream = TcpStream::connect(&listening.address).unwrap();
    }
    listening.signal("-TERM");
    assert!(listening.ends_unread().is_some());
}

#[test]
fn a_record_that_ends_amid_a_line_goes_on_with_a_whole_one() {
    let record = temporary("half");
    std::fs::write(&record, "{\"received_at\": \"2026-06").unwrap();
    let listening = Listening::start(&[
        "--secret",
        "navigation=s3cret",
        "--record",
        record.to_str().unwrap(),
    ]);
    let answer = listening.post("navigation", "s3cret", &event("a", 1));
    let recorded = std::fs::read_to_string(&record).unwrap();
    std::fs::remove_file(&record).unwrap();

    assert_eq!(answer, "200 OK");
    let (half, whole) = recorded.split_once('\n').unwrap();
    assert_eq!(half, "{\"received_at\": \"2026-06");
    let whole: Value = serde_json::from_str(whole).unwrap();
    assert_eq!(whole["event"]["event_id"], "a");
}

#[test]
fn what_it_cannot_start_with_is_an_error_that_shows_no_secret() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken
        .local_addr()
        .map(|address| (taken, address.to_string()))
        .unwrap();
    let listen = |more: &[&str]| run([&["listen", "--addr", &taken.1], more].concat(), "");
    for (arguments, reason) in [
        (
            ["--secret", "navigation=hunter2"].as_slice(),
            "cannot listen on 127.0.0.1",
        ),
        (&["--secret", "navigation"], "no = between"),
        (&["--secret", "navigation=hunter2 "], "white space"),
        (&["--secret", "navi gation=hunter2"], "contains ' '"),
        (&["--secret", "navigation="], "the secret is empty"),
        (
            &["--env-file", "/does/not/exist"],
            "cannot read /does/not/exist",
        ),
        (&["--env-file", "/dev/null"], "/dev/null names no server"),
        (
            &[
                "--secret",
                "navigation=hunter2",
                "--record",
                "/does/not/exist",
            ],
            "cannot open /does/not/exist",
        ),
    ] {
        let answer = listen(arguments);
        assert_eq!(answer.code, 2, "{arguments:?}");
        assert!(
            answer.stderr.contains(reason),
            "{arguments:?}: {}",
            answer.stderr
        );
        assert!(!answer.stderr.contains("hunter2"), "{}", answer.stderr);
    }
}
