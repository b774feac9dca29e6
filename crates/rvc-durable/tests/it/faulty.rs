//! A store that refuses writes on command.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rvc_durable::store::{
    AnswerOutcome, CancelOutcome, Census, Claim, ClaimRequest, Claims, Filter, Renewed, Store,
    StoreError, Submitted, Write, Written,
};
use rvc_durable::{
    ActionId, HostKind, Linkage, Moment, OwnerId, Registration, RegistrationId, RemoteKind, RunId,
    Submission,
};
use rvc_wire::Map;

use crate::engine::TestStore;

type Fault = Box<dyn FnMut(&Write) -> Option<StoreError> + Send>;
type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

#[derive(Clone)]
pub(crate) struct FaultyStore {
    inner: TestStore,
    fault: Arc<Mutex<Fault>>,
    is_away: Arc<AtomicBool>,
    is_broken: Arc<AtomicBool>,
}

impl FaultyStore {
    pub(crate) fn new(
        inner: TestStore,
        fault: impl FnMut(&Write) -> Option<StoreError> + Send + 'static,
    ) -> Self {
        Self {
            inner,
            fault: Arc::new(Mutex::new(Box::new(fault))),
            is_away: Arc::default(),
            is_broken: Arc::default(),
        }
    }

    /// Lets nobody claim, read or count, until it is back.
    pub(crate) fn go_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Panics at the next claim.
    pub(crate) fn break_down(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
    }

    fn there<'a, T: Send + 'a>(&self, answer: Answer<'a, T>) -> Answer<'a, T> {
        if self.is_away.load(Ordering::SeqCst) {
            let detail = "nobody listens".to_owned();
            return Box::pin(std::future::ready(Err(StoreError::Unreachable { detail })));
        }
        answer
    }
}

impl Store for FaultyStore {
    fn write(&self, write: Write) -> Answer<'_, Written> {
        match (self.fault.lock().unwrap())(&write) {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.inner.write(write),
        }
    }

    fn now(&self) -> Answer<'_, Moment> {
        self.inner.now()
    }
    fn submit(&self, submission: Submission, host: HostKind) -> Answer<'_, Submitted> {
        self.inner.submit(submission, host)
    }
    fn claim(&self, request: ClaimRequest) -> Answer<'_, Claims> {
        assert!(!self.is_broken.load(Ordering::SeqCst), "by a test");
        self.there(self.inner.claim(request))
    }
    fn renew(&self, claim: Claim, lease: Duration) -> Answer<'_, Renewed> {
        self.inner.renew(claim, lease)
    }
    fn release(&self, claim: Claim) -> Answer<'_, ()> {
        self.inner.release(claim)
    }
    fn row(&self, action: ActionId) -> Answer<'_, Option<Linkage>> {
        self.there(self.inner.row(action))
    }
    fn rows(&self, filter: Filter) -> Answer<'_, Vec<Linkage>> {
        self.inner.rows(filter)
    }
    fn census(&self) -> Answer<'_, Census> {
        self.there(self.inner.census())
    }
    fn cancel_action(&self, action: ActionId) -> Answer<'_, CancelOutcome> {
        self.inner.cancel_action(action)
    }
    fn cancel_run(&self, run: RunId) -> Answer<'_, Option<Vec<ActionId>>> {
        self.inner.cancel_run(run)
    }
    fn answer(&self, action: ActionId, answers: Map) -> Answer<'_, AnswerOutcome> {
        self.inner.answer(action, answers)
    }
    fn wake(&self, action: ActionId) -> Answer<'_, bool> {
        self.inner.wake(action)
    }
    fn wake_remote(
        &self,
        registration: RegistrationId,
        kind: RemoteKind,
        id: String,
    ) -> Answer<'_, u64> {
        self.inner.wake_remote(registration, kind, id)
    }
    fn put_registration(&self, registration: Registration) -> Answer<'_, ()> {
        self.inner.put_registration(registration)
    }
    fn enable_registration(&self, id: RegistrationId, enabled: bool) -> Answer<'_, bool> {
        self.inner.enable_registration(id, enabled)
    }
    fn remove_registration(&self, id: RegistrationId) -> Answer<'_, bool> {
        self.inner.remove_registration(id)
    }
    fn registrations(&self, owner: Option<OwnerId>) -> Answer<'_, Vec<Registration>> {
        self.inner.registrations(owner)
    }
}
