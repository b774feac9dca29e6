//! What was seen, in files of JSON lines: one for each witness, who knows nothing of the others.
//! Each life of a server is one.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::schedule::Fault;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Microseconds since 1970.
    pub(super) at: u64,
    #[serde(flatten)]
    pub(super) seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "seen", rename_all = "snake_case")]
pub(super) enum Seen {
    /// The host: before the first attempt.
    Submitting(Submitted),
    /// The host: it was acknowledged.
    Submitted { action: String },
    /// The host: the run had been cancelled.
    Refused { action: String },
    /// The host: before the first attempt.
    Cancelling { action: String },
    /// The host: the cancel was acknowledged.
    Cancelled { action: String },
    /// The host: the action had ended before.
    CancelledTooLate { action: String },
    /// The host: before the first attempt.
    CancellingRun { run: String },
    /// The host: the cancel was acknowledged.
    CancelledRun { run: String },
    /// The host: an outcome, while chaos reigned or after it.
    Outcome(Outcome),

    /// The foreign host: before it says how a run stands.
    AskedForRun { process: u32, run: String },
    /// The foreign host: before it says whether it has an outcome.
    Looked { process: u32, action: String },
    /// The foreign host: before it takes an outcome.
    Delivering {
        process: u32,
        action: String,
        phase: String,
    },
    /// The foreign host: before an action ends.
    Finishing { action: String, state: String },
    /// The foreign host, at the end: what it took.
    Delivered { action: String, phase: String },

    /// A server: before any work.
    Start(Work),
    /// A server: before the answer.
    End(Work),
    /// A server: a wish to cancel.
    CancelReceived(Work),
    /// A server: a start whose idempotency key it knew.
    Repeated(Work),

    /// Chaos: from now on.
    FaultBegan { fault: Fault },
    /// Chaos: it was repaired.
    FaultEnded { fault: Fault },
    /// A supervisor ended by itself.
    SupervisorEnded { supervisor: usize, status: String },

    /// The database's own triggers.
    Wrote(Wrote),
    /// The database, at the end: one row.
    Row(Row),
}

/// What the host asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Submitted {
    pub(super) action: String,
    pub(super) run: String,
    pub(super) is_foreign: bool,
    pub(super) server: usize,
    pub(super) tool: String,
    pub(super) policy: String,
    pub(super) deadline_ms: Option<u64>,
}

/// An action's end, as the host is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) action: String,
    pub(super) phase: String,
    pub(super) error_code: Option<String>,
    /// Message and result.
    pub(super) said: String,
}

/// Something that a server does for an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) action: String,
    pub(super) server: usize,
    /// Which life of the server; what it knows ends with it.
    pub(super) life: u32,
    /// Unique for each start, and part of its result.
    pub(super) value: String,
    /// How it ends, if nobody cancels it: completed, error or failed.
    pub(super) status: String,
}

/// A change that a trigger saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Wrote {
    pub(super) transaction: String,
    /// The name of the connection that it came over: the host's, or a supervisor's.
    pub(super) writer: String,
    /// outcome, action, phase or linkage.
    pub(super) what: String,
    /// INSERT, UPDATE or DELETE.
    pub(super) change: String,
    pub(super) action: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Wrote {
    pub(super) fn supervisor(&self) -> Option<usize> {
        self.writer.strip_prefix("supervisor-")?.parse().ok()
    }
}

/// A row at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) action: String,
    pub(super) phase: String,
    pub(super) state: String,
    pub(super) is_open: bool,
    pub(super) starts: u64,
    pub(super) remote_task: Option<String>,
    pub(super) cancels_asked: u64,
}

/// Writes one witness' file.
#[derive(Clone)]
pub(super) struct Journal(Arc<Mutex<File>>);

impl Journal {
    pub(super) fn create(folder: &Path, witness: &str) -> Self {
        let path = folder.join(format!("{witness}.jsonl"));
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self(Arc::new(Mutex::new(file.unwrap())))
    }

    pub(super) fn write(&self, seen: Seen) {
        self.write_at(now(), seen);
    }

    pub(super) fn write_at(&self, at: u64, seen: Seen) {
        let mut line = serde_json::to_string(&Entry { at, seen }).unwrap();
        // One write, after which the line outlives the process.
        line.push('\n');
        self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// All that the witnesses of a folder saw, in the order of time.
pub(super) fn read(folder: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "jsonl") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        entries.extend(whole_lines(&text).map(|line| -> Entry {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        }));
    }
    entries.sort_by_key(|entry| entry.at);
    entries
}

/// Without the half of a line that a process was killed over: what it was about had not begun,
/// and nobody was told.
fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    let end = text.rfind('\n').map_or(0, |last| last + 1);
    text[..end].lines()
}

pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}

#[test]
fn half_a_line_of_a_process_that_was_killed_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::create(folder.path(), "server-0-1");
    let action = "a".to_owned();
    journal.write(Seen::Submitted { action });
    let half = br#"{"at": 2, "seen": "refu"#;
    journal.0.lock().unwrap().write_all(half).unwrap();

    let entries = read(folder.path());

    assert_eq!(entries.len(), 1, "{entries:?}");
}
