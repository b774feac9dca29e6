//! Random operations against the store and against a model of it that fits on a page.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::engine::is_on_a_server;
use super::operations::{Operation, any_operation, name, request, run_of, step};
use super::*;
use crate::outcome::Outcome;
use crate::phase::Phase;
use crate::plan::HORIZON;

/// A row of the model.
#[derive(Clone)]
struct Entry {
    row: Linkage,
    hash: String,
    lease: Option<(LeaseOwner, Moment)>,
    fence: u64,
    wakes: u64,
    answers: Vec<String>,
}

impl Entry {
    fn is_free(&self, now: Moment) -> bool {
        self.lease
            .is_none_or(|(_, until)| until <= now || until > now.after(HORIZON))
    }

    fn is_due(&self, now: Moment) -> bool {
        self.row
            .next_due
            .is_some_and(|due| due <= now || due > now.after(HORIZON))
    }

    fn holds(&self, claim: &Claim) -> bool {
        self.lease.is_some_and(|(owner, _)| owner == claim.owner) && self.fence == claim.fence.get()
    }

    fn wake(&mut self, now: Moment) {
        if let Some(due) = self.row.next_due {
            self.wakes += 1;
            self.row.next_due = Some(due.min(now));
        }
    }

    fn cancel(&mut self, now: Moment) {
        if self.row.outcome.is_none() {
            let row = self.row.clone();
            self.row = plan::settled(row, Outcome::cancelled_by_host(), now);
            self.wakes += 1;
        }
    }
}

#[derive(Default)]
struct Model {
    rows: BTreeMap<ActionId, Entry>,
    runs: BTreeMap<RunId, bool>,
    remotes: u32,
    /// The time that a claim noted last.
    noted: i64,
}

impl Model {
    fn heed_the_clock(&mut self, now: Moment, lease: Duration) {
        let is_back = now.unix_ms() < self.noted - 5_000;
        if is_back {
            let open = |it: &&mut Entry| it.row.next_due.is_some();
            for entry in self.rows.values_mut().filter(open) {
                let is_ahead = |it: Option<Moment>| it.is_some_and(|it| it > now);
                if is_ahead(entry.row.next_due) || is_ahead(entry.lease.map(|(_, end)| end)) {
                    entry.wakes += 1;
                }
                entry.row.next_due = entry.row.next_due.map(|due| due.min(now));
                let until = |until: Moment| until.min(now.after(lease));
                entry.lease = entry.lease.map(|(owner, end)| (owner, until(end)));
            }
        }
        if is_back || now.unix_ms() > self.noted + 10_000 {
            self.noted = now.unix_ms();
        }
    }

    fn write(&mut self, write: &Write, now: Moment) -> &'static str {
        let entry = self.rows.get_mut(&write.claim.action).unwrap();
        if !entry.holds(&write.claim) {
            return "stale";
        }
        if entry.row.phase != write.expect {
            return "overtaken";
        }
        let due = write.row.next_due;
        entry.row = write.row.clone();
        if entry.wakes > write.claim.wakes {
            entry.row.next_due = due.map(|due| due.min(now));
        }
        if !write.keep_lease {
            entry.lease = None;
        }
        "applied"
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_on_a_server() { 24 } else { 96 }))]

    #[test]
    fn random_operations_leave_the_store_as_they_leave_the_model(
        operations in prop::collection::vec(any_operation(), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (store, clock) = open();
            let mut model = Model::default();
            let owners = [LeaseOwner::draw(), LeaseOwner::draw(), LeaseOwner::draw()];
            let mut held: Vec<Claimed> = Vec::new();
            for operation in operations {
                let now = clock.now();
                match operation {
                    Operation::Submit { action, policy } => {
                        let submission = request(action, policy);
                        let answer = store.submit(submission.clone(), HostKind::Ledger).await.unwrap();
                        let hash = submission.request_hash();
                        match model.rows.get(&submission.action) {
                            Some(entry) if entry.hash == hash => {
                                assert_eq!(answer, Submitted::Known(Box::new(entry.row.clone())));
                            }
                            Some(_) => assert_eq!(answer, Submitted::Different),
                            None if model.runs.get(&submission.run) == Some(&true) => {
                                assert_eq!(answer, Submitted::RunCancelled);
                            }
                            None => {
                                assert_eq!(answer, Submitted::New);
                                model.runs.entry(submission.run.clone()).or_default();
                                let row = Linkage::intent(&submission, HostKind::Ledger, now);
                                let entry = Entry { row, hash, lease: None, fence: 0, wakes: 0, answers: vec![] };
                                model.rows.insert(submission.action.clone(), entry);
                            }
                        }
                    }
                    Operation::Claim { owner, limit } => {
                        let request = ClaimRequest::new(owners[owner], limit, Duration::from_secs(30));
                        model.heed_the_clock(now, request.lease);
                        let claims = store.claim(request).await.unwrap();
                        let free = model.rows.values().filter(|it| it.is_due(now) && it.is_free(now)).count();
                        assert_eq!(claims.rows.len(), free.min(limit as usize));
                        for claimed in claims.rows {
                            let entry = model.rows.get_mut(&claimed.claim.action).unwrap();
                            assert!(entry.is_due(now) && entry.is_free(now));
                            assert_eq!(claimed.recovered, entry.lease.is_some());
                            entry.fence += 1;
                            entry.lease = Some((owners[owner], claimed.until));
                            assert_eq!(claimed.claim.fence.get(), entry.fence);
                            assert_eq!(claimed.row, entry.row);
                            held.push(claimed);
                        }
                    }
                    Operation::Step { held: index, kind } if !held.is_empty() => {
                        let index = index % held.len();
                        let claimed = held[index].clone();
                        let Some(row) = step(&claimed.row, kind, &mut model.remotes, now) else {
                            held.remove(index);
                            continue;
                        };
                        let keep = row.phase == Phase::Sending;
                        let mut write = Write::new(claimed.claim, claimed.row.phase, row);
                        write.keep_lease = keep;
                        let expected = model.write(&write, now);
                        match store.write(write.clone()).await.unwrap() {
                            Written::Applied => assert_eq!(expected, "applied"),
                            Written::Stale => assert_eq!(expected, "stale"),
                            Written::Overtaken(row) => {
                                assert_eq!(expected, "overtaken");
                                assert_eq!(*row, model.rows[&write.claim.action].row);
                            }
                            Written::RemoteTaken => panic!("every remote id here is new"),
                        }
                        if keep && expected == "applied" {
                            held[index].row = write.row;
                        } else {
                            held.remove(index);
                        }
                    }
                    Operation::Renew { held: index } if !held.is_empty() => {
                        let claim = held[index % held.len()].claim.clone();
                        let entry = model.rows.get_mut(&claim.action).unwrap();
                        let holds = entry.holds(&claim);
                        let lease = Duration::from_secs(30);
                        let expected = match entry.row.phase {
                            _ if !holds => Renewed::Lost,
                            Phase::Cancelled => Renewed::Cancelled,
                            _ => Renewed::Held,
                        };
                        assert_eq!(store.renew(claim, lease).await, Ok(expected));
                        if holds {
                            entry.lease = entry.lease.map(|(owner, _)| (owner, now.after(lease)));
                        }
                    }
                    Operation::Release { held: index } if !held.is_empty() => {
                        let claimed = held.remove(index % held.len());
                        let entry = model.rows.get_mut(&claimed.claim.action).unwrap();
                        if entry.holds(&claimed.claim) {
                            entry.lease = None;
                        }
                        store.release(claimed.claim).await.unwrap();
                    }
                    Operation::Cancel { action } => {
                        let answer = store.cancel_action(name(action)).await.unwrap();
                        match model.rows.get_mut(&name(action)) {
                            None => assert_eq!(answer, CancelOutcome::Unknown),
                            Some(entry) if entry.row.outcome.is_some() => {
                                assert_eq!(answer, CancelOutcome::Ended(Box::new(entry.row.clone())));
                            }
                            Some(entry) => {
                                assert_eq!(answer, CancelOutcome::Cancelled);
                                entry.cancel(now);
                            }
                        }
                    }
                    Operation::CancelRun { run } => {
                        let run = run_of(run);
                        let answer = store.cancel_run(run.clone()).await.unwrap();
                        if let Some(cancelled) = model.runs.get_mut(&run) {
                            *cancelled = true;
                            let mut pending = Vec::new();
                            for (action, entry) in &mut model.rows {
                                if entry.row.run == run && entry.row.outcome.is_none() {
                                    entry.cancel(now);
                                    pending.push(action.clone());
                                }
                            }
                            assert_eq!(answer, Some(pending));
                        } else {
                            assert_eq!(answer, None);
                        }
                    }
                    Operation::Wake { action } => {
                        let woken = store.wake(name(action)).await.unwrap();
                        let entry = model.rows.get_mut(&name(action));
                        assert_eq!(woken, entry.as_ref().is_some_and(|it| it.row.next_due.is_some()));
                        if let Some(entry) = entry {
                            entry.wake(now);
                        }
                    }
                    Operation::Answer { action } => {
                        let answers = json!({"k": {"action": "accept"}}).as_object().cloned().unwrap();
                        let answer = store.answer(name(action), answers).await.unwrap();
                        match model.rows.get_mut(&name(action)) {
                            None => assert_eq!(answer, AnswerOutcome::Unknown),
                            Some(entry) if entry.row.input_requests.contains_key("k") && entry.answers.is_empty() => {
                                assert_eq!(answer, AnswerOutcome::Stored);
                                entry.answers.push("k".into());
                                entry.wake(now);
                            }
                            Some(_) => assert_eq!(answer, AnswerOutcome::NotAsked),
                        }
                    }
                    Operation::Pass { ms } => clock.advance(Duration::from_millis(ms)),
                    Operation::SetBack { ms } => clock.set_back(ms),
                    Operation::Step { .. } | Operation::Renew { .. } | Operation::Release { .. } => {}
                }
                for (action, entry) in &model.rows {
                    let row = store.row(action.clone()).await.unwrap().unwrap();
                    assert_eq!(row, entry.row);
                }
            }
        });
    }
}
