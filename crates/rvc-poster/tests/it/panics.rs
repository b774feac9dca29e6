//! What is plugged into a poster may panic. That costs the attempt and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rvc_poster::{Connecting, Connector};
use rvc_test::{Logs, ScriptedEndpoint};
use tracing::Level;

use crate::support::{Memory, builder, progress, seconds, seqs};

/// Panics the first times that it is asked: before there is a future, and inside of one.
struct Panicking {
    asked: AtomicU32,
    then: Memory,
}

impl Connector for Panicking {
    fn connect(&self) -> Connecting<'_> {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            0 => panic!("no future"),
            1 => Box::pin(async { panic!("no connection") }),
            _ => self.then.connect(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_panics_fails_the_attempt_and_its_task_goes_on() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = builder(&endpoint)
        .max_connections(1)
        .connector(Panicking {
            asked: AtomicU32::new(0),
            then: Memory(endpoint.clone()),
        })
        .build()
        .unwrap();
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));

    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2]);
    let failures = logs.at(Level::WARN);
    assert!(!failures.is_empty(), "{:?}", logs.lines());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_panics_fails_the_attempt_and_its_task_goes_on() {
    let asked = Arc::new(AtomicU32::new(0));
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = builder(&endpoint)
        .max_connections(1)
        .clock(move || match asked.fetch_add(1, Ordering::Relaxed) {
            0 => panic!("no time"),
            _ => 1_765_532_000,
        })
        .build()
        .unwrap();
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));

    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2]);
}
