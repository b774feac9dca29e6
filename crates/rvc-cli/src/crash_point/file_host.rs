use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rvc_durable::plan::RunState;
use rvc_durable::{
    ActionId, ActionState, Delivery, ForeignHost, HostError, OwnerId, Registration, RegistrationId,
    RunId,
};

type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, HostError>> + Send + 'a>>;

/// A foreign host in a directory: the smallest that survives its process.
///
/// `registration-<ID>.json` is what everybody may use, a file `cancelled-<RUN>` cancels the run,
/// `delivered-<ACTION>` is an outcome that was taken, and `log` has a line for each call, written
/// before it is answered: microseconds since 1970, the process, and what it is about.
pub(super) struct FileHost(PathBuf);

impl FileHost {
    pub(super) fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    fn log(&self, line: &str) -> io::Result<()> {
        let (now, process) = (UNIX_EPOCH.elapsed(), std::process::id());
        let now = now.map_err(io::Error::other)?.as_micros();
        let path = self.0.join("log");
        let mut log = OpenOptions::new().append(true).create(true).open(path)?;
        // One write, so that neither a kill nor another process divides it.
        log.write_all(format!("{now} {process} {line}\n").as_bytes())
    }

    /// Whole or not at all, and once: a second one changes nothing.
    fn take(&self, delivery: &Delivery) -> io::Result<()> {
        let (action, phase) = (&delivery.action, delivery.outcome.phase.as_str());
        self.log(&format!("deliver {action} {phase}"))?;
        let draft = self
            .0
            .join(format!("draft-{action}-{}", std::process::id()));
        fs::write(&draft, phase)?;
        match fs::hard_link(&draft, delivered(&self.0, action)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::remove_file(draft),
        }
    }

    fn run(&self, run: &RunId) -> io::Result<RunState> {
        self.log(&format!("asks {run}"))?;
        let is_cancelled = self.0.join(format!("cancelled-{run}")).exists();
        Ok(if is_cancelled {
            RunState::Cancelled
        } else {
            RunState::Active
        })
    }

    fn registration(&self, id: &RegistrationId) -> io::Result<Option<Registration>> {
        match fs::read_to_string(self.0.join(format!("registration-{id}.json"))) {
            Ok(text) => Ok(Some(serde_json::from_str(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl ForeignHost for FileHost {
    fn run_state(&self, run: RunId) -> Answer<'_, RunState> {
        answer(self.run(&run))
    }

    fn was_delivered(&self, action: ActionId) -> Answer<'_, bool> {
        let looks = self.log(&format!("looks {action}"));
        answer(looks.map(|()| delivered(&self.0, &action).exists()))
    }

    fn deliver(&self, delivery: Delivery) -> Answer<'_, ()> {
        answer(self.take(&delivery))
    }

    fn finish(&self, action: ActionId, state: ActionState) -> Answer<'_, ()> {
        answer(self.log(&format!("finish {action} {}", state.as_str())))
    }

    fn authorise(&self, id: RegistrationId, _: OwnerId) -> Answer<'_, Option<Registration>> {
        answer(self.registration(&id))
    }
}

fn answer<'a, T: Send + 'a>(done: io::Result<T>) -> Answer<'a, T> {
    Box::pin(std::future::ready(done.map_err(|error| HostError {
        reason: error.to_string(),
    })))
}

fn delivered(directory: &Path, action: &ActionId) -> PathBuf {
    directory.join(format!("delivered-{action}"))
}
