//! A store, a server, and processes that come and go. All on the paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rvc_durable::store::Store;
use rvc_durable::{
    ActionId, Checkpoint, Durable, DurableStep, ErrorCode, Linkage, Moment, Outcome, OwnerId,
    Registration, RegistrationId, Submission, SupervisorOptions, TransportKind,
};
use serde_json::json;

use crate::engine::TestStore;
use crate::peer::{Call, Peer, Reply};

pub(crate) const T0: i64 = 1_700_000_000_000;

pub(crate) fn id(action: &str) -> ActionId {
    action.parse().unwrap()
}

pub(crate) fn robot() -> RegistrationId {
    "robot".parse().unwrap()
}

pub(crate) fn registration() -> Registration {
    Registration {
        id: robot(),
        owner: OwnerId::local(),
        endpoint: "http://robot/mcp".parse().unwrap(),
        transport: TransportKind::StreamableHttp,
        enabled: true,
    }
}

pub(crate) fn submission(action: &str) -> Submission {
    let arguments = json!({"to": "kitchen"}).as_object().cloned().unwrap();
    Submission::new(id(action), robot(), "navigate_to").arguments(arguments)
}

/// A store on Tokio's clock, so that what is due and what sleeps agree.
pub(crate) fn memory() -> TestStore {
    let start = tokio::time::Instant::now();
    TestStore::new(move || Moment::from_unix_ms(T0).after(start.elapsed()))
}

pub(crate) struct World {
    pub(crate) store: TestStore,
    pub(crate) peer: Peer,
}

impl World {
    pub(crate) async fn new(script: impl FnMut(&Call) -> Reply + Send + 'static) -> Self {
        let store = memory();
        store.put_registration(registration()).await.unwrap();
        Self {
            store,
            peer: Peer::new(script),
        }
    }

    /// A process that only submits and asks.
    pub(crate) fn host(&self) -> Durable {
        Durable::new(
            self.store.clone(),
            self.peer.clone(),
            SupervisorOptions::new(),
        )
    }

    /// A process that supervises. Dropping it is a crash.
    pub(crate) fn process(&self) -> Durable {
        self.process_with(SupervisorOptions::new())
    }

    pub(crate) fn process_with(&self, options: SupervisorOptions) -> Durable {
        let process = Durable::new(self.store.clone(), self.peer.clone(), options);
        process.supervise();
        process
    }

    /// A process that crashes, once, when an action comes to `step`.
    pub(crate) fn crashing_at(&self, step: DurableStep) -> (Durable, Arc<CrashAt>) {
        let crash = Arc::new(CrashAt::new(step));
        let options = SupervisorOptions::new().checkpoint(crash.clone());
        (self.process_with(options), crash)
    }

    pub(crate) async fn row(&self, action: &str) -> Linkage {
        self.store.row(id(action)).await.unwrap().unwrap()
    }

    /// Submits one action, supervises it to its end, and until nothing is left to do.
    pub(crate) async fn run(&self, submission: Submission) -> Outcome {
        let process = self.process();
        let action = submission.action.clone();
        process.submit(submission).await.unwrap();
        let outcome = process.outcome(&action).await.unwrap();
        process.idle().await.unwrap();
        process.close().await;
        outcome
    }
}

/// Stops a step for ever where a crash would, and every step of the process after it.
pub(crate) struct CrashAt {
    step: DurableStep,
    crashed: AtomicBool,
}

impl CrashAt {
    pub(crate) fn new(step: DurableStep) -> Self {
        Self {
            step,
            crashed: AtomicBool::new(false),
        }
    }

    pub(crate) fn crashed(&self) -> bool {
        self.crashed.load(Ordering::SeqCst)
    }

    /// Waits for the crash.
    pub(crate) async fn wait(&self) {
        for _ in 0..100_000 {
            if self.crashed() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} was never reached", self.step);
    }
}

impl Checkpoint for CrashAt {
    fn reached(&self, step: DurableStep, _: &ActionId) {
        if self.crashed() || step == self.step {
            self.crashed.store(true, Ordering::SeqCst);
            // Quietly: what a crash leaves behind is silence.
            std::panic::resume_unwind(Box::new("a crash"));
        }
    }
}

/// Lets time pass, with everything that happens in it.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The code of an outcome's error; empty without one.
pub(crate) fn code(outcome: &Outcome) -> &str {
    outcome.error_code.as_ref().map_or("", ErrorCode::as_str)
}
