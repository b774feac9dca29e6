//! A host that keeps its runs and actions in a directory, and not in the ledger. The supervisors
//! deliver to it; here it submits and cancels.

use std::fs;
use std::path::{Path, PathBuf};

use rvc_durable::{Durable, Registration};

use super::history::{Journal, Seen};

#[derive(Clone)]
pub(super) struct Foreign {
    pub(super) durable: Durable,
    directory: PathBuf,
}

impl Foreign {
    pub(super) fn new(durable: Durable, directory: PathBuf) -> Self {
        Self { durable, directory }
    }

    pub(super) fn register(&self, registration: &Registration) {
        let name = format!("registration-{}.json", registration.id);
        let text = serde_json::to_string(registration).unwrap();
        fs::write(self.directory.join(name), text).unwrap();
    }

    pub(super) fn cancel(&self, run: &str) {
        fs::write(self.directory.join(format!("cancelled-{run}")), "").unwrap();
    }
}

/// Makes the directory.
pub(super) fn directory(folder: &Path) -> PathBuf {
    let directory = folder.join("foreign");
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Writes down what the host was asked and told, and what it took.
pub(super) fn dump(directory: &Path, journal: &Journal) {
    let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [at, process, call @ ..] = words.as_slice() else {
            panic!("{line}");
        };
        let process = process.parse().unwrap();
        let seen = match call {
            ["asks", run] => Seen::AskedForRun {
                process,
                run: (*run).to_owned(),
            },
            ["looks", action] => Seen::Looked {
                process,
                action: (*action).to_owned(),
            },
            ["deliver", action, phase] => Seen::Delivering {
                process,
                action: (*action).to_owned(),
                phase: (*phase).to_owned(),
            },
            ["finish", action, state] => Seen::Finishing {
                action: (*action).to_owned(),
                state: (*state).to_owned(),
            },
            _ => panic!("{line}"),
        };
        journal.write_at(at.parse().unwrap(), seen);
    }
    for file in fs::read_dir(directory).unwrap() {
        let file = file.unwrap();
        if let Some(action) = file
            .file_name()
            .to_str()
            .unwrap()
            .strip_prefix("delivered-")
        {
            journal.write(Seen::Delivered {
                action: action.to_owned(),
                phase: fs::read_to_string(file.path()).unwrap(),
            });
        }
    }
}
