//! The brain over restarts of either side.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::Program;
use crate::receiver::SECRET;

/// A port that nobody has, for a program that must find it again after its restart.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    listener.local_addr().expect("it is bound").port()
}

/// A path for the brain's notes, where nothing is.
fn no_notes(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    path
}

/// Whether one of the spans around a log line has this field.
fn in_span(line: &Value, field: &str, value: &Value) -> bool {
    let spans = line["spans"].as_array().expect("an event has spans");
    spans.iter().any(|span| span[field] == *value)
}

struct Brain {
    listen: String,
    notes: PathBuf,
}

impl Brain {
    fn start(&self, mcp: &str, call: &[&str]) -> Program {
        let notes = self
            .notes
            .to_str()
            .expect("build directories have plain names");
        let fixed = [
            "--mcp",
            mcp,
            "--listen",
            &self.listen,
            "--notes",
            notes,
            "--poll-every",
            "1",
        ];
        Program::start(
            "brain",
            &[&fixed, call].concat(),
            &[("RVC_EVENT_SECRET", SECRET)],
        )
    }

    fn callback(&self) -> String {
        format!("http://{}/api/agent/events", self.listen)
    }
}

#[test]
fn an_end_whose_event_does_not_come_is_learned_by_polling() {
    let brain = Brain {
        listen: format!("127.0.0.1:{}", free_port()),
        notes: no_notes("away.json"),
    };
    let callback = brain.callback();
    let variables = [
        ("RVC_CALLBACK_URL", callback.as_str()),
        ("RVC_EVENT_SECRET", SECRET),
    ];
    let (_sleeper, mcp) = Program::serve("sleeper", &variables);
    let mut first = brain.start(
        &mcp,
        &[
            "--call",
            "sleep_task",
            "--arguments",
            r#"{"duration_s": 3}"#,
        ],
    );
    let started = first.logged("started", |_| true);
    first.logged("event", |line| in_span(line, "seq", &1.into()));
    drop(first);

    // Where it listens now no event comes: only a poll can tell.
    let elsewhere = Brain {
        listen: "127.0.0.1:0".to_owned(),
        notes: brain.notes.clone(),
    };
    let mut second = elsewhere.start(&mcp, &[]);
    let learned = second.logged("learned by polling", |line| line["state"] == "succeeded");
    assert_eq!(learned["task_id"], started["task_id"]);
    drop(second);

    // And the events that were missed come all the same, at least once.
    let mut third = brain.start(&mcp, &[]);
    third.logged("event", |line| in_span(line, "type", &"task_done".into()));
}

#[test]
fn a_task_that_a_restarted_server_does_not_know_is_lost() {
    let brain = Brain {
        listen: format!("127.0.0.1:{}", free_port()),
        notes: no_notes("lost.json"),
    };
    let port = free_port().to_string();
    let start_sleeper = || {
        let flags = ["--transport", "streamable-http", "--port", &port];
        let mut sleeper = Program::start("sleeper", &flags, &[]);
        sleeper.logged("serving", |_| true);
        sleeper
    };
    let sleeper = start_sleeper();
    let mcp = format!("http://127.0.0.1:{port}/mcp");
    let mut program = brain.start(
        &mcp,
        &[
            "--call",
            "sleep_task",
            "--arguments",
            r#"{"duration_s": 600}"#,
        ],
    );
    let started = program.logged("started", |_| true);

    drop(sleeper);
    program.logged("cannot poll", |_| true);
    let _restarted = start_sleeper();

    let lost = program.logged("lost", |_| true);
    assert_eq!(lost["task_id"], started["task_id"]);
    assert_eq!(lost["error_code"], "SERVER_RESTARTED");
}
