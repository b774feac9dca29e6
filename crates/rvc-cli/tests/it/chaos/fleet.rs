//! The supervisors: child processes, each with its own way to the database.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rvc_test::FaultProxy;

use super::foreign;
use super::history::{Journal, Seen};
use super::schedule::LEASE;

/// One supervisor, in all its lives.
pub(super) struct Member {
    index: usize,
    pub(super) link: FaultProxy,
    log: PathBuf,
    foreign: PathBuf,
    journal: Journal,
    /// `None` while it is meant to be away.
    child: Mutex<Option<Child>>,
}

impl Member {
    pub(super) fn start(index: usize, link: FaultProxy, folder: &Path, journal: Journal) -> Self {
        let member = Self {
            index,
            link,
            log: folder.join(format!("supervisor-{index}.log")),
            foreign: foreign::directory(folder),
            journal,
            child: Mutex::new(None),
        };
        member.spawn();
        member
    }

    /// Starts it, if it is not there.
    pub(super) fn spawn(&self) {
        let mut child = self.child.lock().unwrap();
        if child.is_none() {
            *child = Some(self.born());
        }
    }

    fn born(&self) -> Child {
        let mut command = crate::rvc::command(["supervise", "--db"]);
        let name = format!("supervisor-{}", self.index);
        command.arg(super::database_url(&self.link, &name));
        command.args(["--lease", &format!("{}ms", LEASE.as_millis())]);
        command.env("RVC_FOREIGN_HOST", &self.foreign);
        command.args(["--min-poll", "50ms", "--max-poll", "400ms"]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log())
            .spawn()
            .unwrap()
    }

    fn log(&self) -> File {
        let file = OpenOptions::new().create(true).append(true).open(&self.log);
        file.unwrap()
    }

    pub(super) fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends a signal, if it is there.
    pub(super) fn signal(&self, signal: &str) {
        if let Some(child) = self.child.lock().unwrap().as_ref() {
            // One that has just ended by itself is the watch's to find.
            let _ = Command::new("kill")
                .args([signal, &child.id().to_string()])
                .stderr(Stdio::null())
                .status()
                .unwrap();
        }
    }

    /// Ends it in order, and by force when that takes longer than its calls may.
    pub(super) fn end(&self) -> Option<ExitStatus> {
        self.signal("-TERM");
        let mut child = self.child.lock().unwrap().take()?;
        let begun = Instant::now();
        while begun.elapsed() < LONGEST_END {
            if let Some(status) = child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        None
    }

    /// Starts it again if it ended by itself, as a service manager does.
    pub(super) fn watch(&self) {
        let mut child = self.child.lock().unwrap();
        let ended = child.as_mut().and_then(|child| child.try_wait().unwrap());
        if let Some(status) = ended {
            self.journal.write(Seen::SupervisorEnded {
                supervisor: self.index,
                status: status.to_string(),
            });
            *child = Some(self.born());
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A call to a server is bounded by 10 s, and a write to the database by a lease.
const LONGEST_END: Duration = Duration::from_secs(30);
