use std::collections::{BTreeMap, BTreeSet};

use http::HeaderMap;
use proptest::prelude::*;
use rvc_inbox::{Inbox, Kind, Sighting};

use crate::sender::{NOW, builder, event, post};

/// What a sender or the network does next.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// The task's next event is sent, and acknowledged.
    Send { task: usize },
    /// It is sent, its acknowledgement is lost, and it is sent again, signed anew.
    SendTwice { task: usize },
    /// It is given up: nothing of it arrives.
    GiveUp { task: usize },
    /// The server restarts, and the task's id is drawn again.
    Restart { task: usize },
    /// A request that arrived before arrives again as it was.
    Replay { of: usize },
    /// Time passes.
    Wait { seconds: i64 },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..4_usize).prop_map(|task| Act::Send { task }),
        2 => (0..4_usize).prop_map(|task| Act::SendTwice { task }),
        1 => (0..4_usize).prop_map(|task| Act::GiveUp { task }),
        1 => (0..4_usize).prop_map(|task| Act::Restart { task }),
        3 => any::<usize>().prop_map(|of| Act::Replay { of }),
        3 => (1..200_i64).prop_map(|seconds| Act::Wait { seconds }),
    ]
}

/// One sender and an inbox, and what each has seen.
struct World {
    inbox: Inbox,
    now: i64,
    /// Per task: its creation, and how many events it sent or gave up.
    tasks: BTreeMap<usize, (u8, u64)>,
    /// Tasks whose last event was given up.
    skipped: BTreeSet<usize>,
    requests: Vec<(HeaderMap, Vec<u8>)>,
    new_ids: BTreeSet<String>,
}

impl World {
    fn new(remembered_events: usize) -> Self {
        let inbox = builder()
            .remembered_events(remembered_events)
            .build()
            .unwrap();
        Self {
            inbox,
            now: NOW,
            tasks: BTreeMap::new(),
            skipped: BTreeSet::new(),
            requests: Vec::new(),
            new_ids: BTreeSet::new(),
        }
    }

    /// Sends an event until an attempt is accepted, as a poster does, and answers what it was.
    fn deliver(&mut self, task: usize, creation: u8, seq: u64) -> rvc_inbox::Accepted {
        let event = event(&format!("nav-{task:06}"), creation, seq);
        loop {
            let (headers, body) = post(&event, self.now);
            let accepted = self.inbox.accept(&headers, &body, self.now);
            match accepted {
                Ok(accepted) => {
                    self.requests.push((headers, body));
                    return accepted;
                }
                Err(rejection) => {
                    assert_eq!(rejection.verdict(), "indistinct");
                    self.now += 1;
                }
            }
        }
    }

    fn send(&mut self, task: usize) {
        let (creation, sent) = *self.tasks.entry(task).or_default();
        let seq = sent + 1;
        self.tasks.insert(task, (creation, seq));
        let accepted = self.deliver(task, creation, seq);
        assert_eq!(accepted.kind, Kind::New, "{accepted:?}");
        let id = accepted.event.event_id.to_string();
        assert!(self.new_ids.insert(id), "accepted twice");

        let was_skipped = self.skipped.remove(&task);
        assert_eq!(accepted.gap.is_some(), was_skipped, "{accepted:?}");
        assert_ne!(accepted.sighting, Sighting::Late);
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Send { task } => self.send(task),
            Act::SendTwice { task } => {
                self.send(task);
                self.now += 1;
                let (creation, seq) = self.tasks[&task];
                assert_eq!(self.deliver(task, creation, seq).kind, Kind::Duplicate);
            }
            Act::GiveUp { task } => {
                self.tasks.entry(task).or_default().1 += 1;
                self.skipped.insert(task);
            }
            Act::Restart { task } => {
                let (creation, sent) = self.tasks.entry(task).or_default();
                *creation += 1;
                *sent = 0;
                self.skipped.remove(&task);
                // The first event of the new one arrives; if it did not, a receiver could not
                // always tell the two apart, and says to poll.
                self.send(task);
            }
            Act::Replay { of } => {
                let Some(index) = of.checked_rem(self.requests.len()) else {
                    return;
                };
                let (headers, body) = &self.requests[index];
                if let Ok(accepted) = self.inbox.accept(headers, body, self.now) {
                    assert_eq!(accepted.kind, Kind::Duplicate, "a replay was taken");
                }
            }
            Act::Wait { seconds } => self.now += seconds,
        }
    }
}

proptest! {
    // Each case signs and verifies up to some hundred events.
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_event_is_new_exactly_once_whatever_is_retried_replayed_or_forgotten(
        remembered_events in prop_oneof![1..5_usize, Just(1_000)],
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let mut world = World::new(remembered_events);
        for act in acts {
            world.act(act);
        }
    }

    #[test]
    fn any_interleaving_of_tasks_is_accepted_in_full_and_without_a_gap(
        turns in prop::collection::vec(0..5_usize, 1..100),
    ) {
        let mut world = World::new(1_000);
        for task in &turns {
            world.act(Act::Send { task: *task });
        }
        prop_assert_eq!(world.new_ids.len(), turns.len());
    }
}
