use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rvc_durable::plan::RunState;
use rvc_durable::{
    ActionId, ActionState, Delivery, ForeignHost, HostError, OwnerId, Registration, RegistrationId,
    RunId,
};

type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, HostError>> + Send + 'a>>;

/// A foreign host in a directory: the smallest that survives its process.
///
/// `registration.json` is what everybody may use, a file `cancelled` cancels every run,
/// `delivered-<ACTION>` is an outcome that was taken, and `log` has a line for each call that
/// changes something.
pub(super) struct FileHost(PathBuf);

impl FileHost {
    pub(super) fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    fn log(&self, line: &str) -> io::Result<()> {
        let path = self.0.join("log");
        let mut log = OpenOptions::new().append(true).create(true).open(path)?;
        log.write_all(format!("{line}\n").as_bytes())?;
        log.sync_all()
    }

    fn take(&self, delivery: &Delivery) -> io::Result<()> {
        self.log(&format!("deliver {}", delivery.action))?;
        match File::create_new(delivered(&self.0, &delivery.action)) {
            Ok(mut taken) => {
                taken.write_all(delivery.outcome.phase.as_str().as_bytes())?;
                taken.sync_all()
            }
            // A second one changes nothing.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn registration(&self, id: &RegistrationId) -> io::Result<Option<Registration>> {
        let text = fs::read_to_string(self.0.join("registration.json"))?;
        let known: Registration = serde_json::from_str(&text)?;
        Ok((known.id == *id).then_some(known))
    }
}

impl ForeignHost for FileHost {
    fn run_state(&self, _: RunId) -> Answer<'_, RunState> {
        answer(Ok(if self.0.join("cancelled").exists() {
            RunState::Cancelled
        } else {
            RunState::Active
        }))
    }

    fn was_delivered(&self, action: ActionId) -> Answer<'_, bool> {
        answer(Ok(delivered(&self.0, &action).exists()))
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
