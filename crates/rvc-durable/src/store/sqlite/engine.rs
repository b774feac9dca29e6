use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use futures_util::future::BoxFuture;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use crate::moment::Moment;
use crate::store::StoreError;

/// Whether an operation changes something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// An operation that waits for its turn, and for the commit that makes it durable.
pub(super) trait Operation: Send {
    fn access(&self) -> Access;
    /// Does the work, from the beginning each time, and says whether it was done.
    fn run(&mut self, db: &Connection, now: Moment) -> bool;
    /// Reports what `run` found out, or that its transaction failed after all.
    fn reply(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Job<T, F> {
    access: Access,
    work: F,
    result: Option<Result<T, StoreError>>,
    /// The work goes back with its result: what it holds is freed by whoever waits for it.
    sender: oneshot::Sender<(Result<T, StoreError>, F)>,
}

impl<T, F> Operation for Job<T, F>
where
    T: Send,
    F: FnMut(&Connection, Moment) -> Result<T, StoreError> + Send,
{
    fn access(&self) -> Access {
        self.access
    }

    fn run(&mut self, db: &Connection, now: Moment) -> bool {
        let result = (self.work)(db, now);
        let done = result.is_ok();
        self.result = Some(result);
        done
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match (committed, self.result) {
            (_, Some(Err(refused))) => Err(refused),
            (Err(failed), _) => Err(failed),
            (Ok(()), Some(done)) => done,
            (Ok(()), None) => Err(StoreError::Closed),
        };
        // Nobody waits any more: the operation is done all the same.
        let _ = self.sender.send((result, self.work));
    }
}

/// The connection, and how a group of operations becomes one commit.
pub(super) struct Engine {
    db: Connection,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
}

impl Engine {
    pub(super) fn new(db: Connection, clock: Arc<dyn Fn() -> Moment + Send + Sync>) -> Self {
        db.set_prepared_statement_cache_capacity(64);
        Self { db, clock }
    }

    /// Carries a group out in one transaction, with what `more` brings until then. A transaction
    /// that fails, fails all of its operations.
    fn carry_out(&mut self, mut group: Vec<Box<dyn Operation>>, more: impl FnMut() -> More) {
        let committed = self.transaction(&mut group, more);
        for operation in group {
            operation.reply(committed.clone());
        }
    }

    /// Operations have no savepoint of their own: it would have the engine copy each page that
    /// each of them writes, for the few that are refused after they changed something. Such a one
    /// takes the transaction back, and leaves the group; the others are carried out anew.
    fn transaction(
        &mut self,
        group: &mut Vec<Box<dyn Operation>>,
        mut more: impl FnMut() -> More,
    ) -> Result<(), StoreError> {
        let writes = group.iter().any(|it| it.access() == Access::Write);
        let mut now = self.begin(writes)?;
        let mut next = 0;
        loop {
            while let Some(operation) = group.get_mut(next) {
                let before = self.db.total_changes();
                let done = operation.run(&self.db, now);
                if self.db.is_autocommit() {
                    // The engine gave the whole transaction up (a full disk does that).
                    return Err(StoreError::Engine {
                        detail: "the transaction was rolled back".to_owned(),
                    });
                }
                next += 1;
                if !done && self.db.total_changes() != before {
                    self.say("ROLLBACK")?;
                    group.remove(next - 1).reply(Ok(()));
                    now = self.begin(writes)?;
                    next = 0;
                }
            }
            // Callers come in groups, as the commit before let them go: the first of them is not
            // to be committed alone. What only reads holds no lock that a write could use.
            if !writes || group.len() >= LARGEST_GROUP {
                break;
            }
            match more() {
                Some(operation) => group.push(operation),
                None => break,
            }
        }
        self.say("COMMIT").inspect_err(|_| {
            let _ = self.db.execute_batch("ROLLBACK");
        })
    }

    fn begin(&self, writes: bool) -> Result<Moment, StoreError> {
        self.say(if writes { "BEGIN IMMEDIATE" } else { "BEGIN" })?;
        Ok((self.clock)())
    }

    /// Executes a statement that has no parameters.
    fn say(&self, statement: &str) -> Result<(), StoreError> {
        self.db.prepare_cached(statement)?.execute([])?;
        Ok(())
    }
}

/// What waits already, if anything does.
type More = Option<Box<dyn Operation>>;

/// Where operations wait.
#[derive(Clone)]
pub(super) enum Queue {
    Thread(mpsc::Sender<Box<dyn Operation>>),
    Inline(Arc<Mutex<Engine>>),
}

impl Queue {
    pub(super) fn inline(engine: Engine) -> Self {
        Self::Inline(Arc::new(Mutex::new(engine)))
    }

    pub(super) fn thread(mut engine: Engine) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::channel::<Box<dyn Operation>>();
        thread::Builder::new()
            .name("rvc-durable-sqlite".to_owned())
            .spawn(move || {
                while let Ok(first) = receiver.recv() {
                    let mut group = vec![first];
                    group.extend(receiver.try_iter().take(LARGEST_GROUP - 1));
                    engine.carry_out(group, || receiver.try_recv().ok());
                }
            })
            .map_err(|error| StoreError::Open {
                detail: error.to_string(),
            })?;
        Ok(Self::Thread(sender))
    }

    pub(super) fn run<T, F>(&self, access: Access, work: F) -> BoxFuture<'_, Result<T, StoreError>>
    where
        T: Send + 'static,
        F: FnMut(&Connection, Moment) -> Result<T, StoreError> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel::<(Result<T, StoreError>, F)>();
        let job = Box::new(Job {
            access,
            work,
            result: None,
            sender,
        });
        // Queued now, not when the future is first polled: a dropped future is still done.
        match self {
            Self::Thread(queue) => {
                // A closed queue drops the job and with it the sender.
                let _ = queue.send(job);
            }
            Self::Inline(engine) => engine
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .carry_out(vec![job], || None),
        }
        Box::pin(async move {
            answer
                .await
                .map_or(Err(StoreError::Closed), |(result, _)| result)
        })
    }
}

/// Operations in one commit. Larger groups gain little and make the first ones wait.
const LARGEST_GROUP: usize = 64;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { detail },
            Some(ErrorCode::DiskFull) => Self::Full { detail },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly { detail },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt { detail },
            Some(ErrorCode::CannotOpen) => Self::Open { detail },
            Some(ErrorCode::ConstraintViolation) => Self::Constraint { detail },
            _ => Self::Engine { detail },
        }
    }
}
