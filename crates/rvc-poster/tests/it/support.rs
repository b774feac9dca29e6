//! What the tests share: a connector to a scripted endpoint, and events.

use std::time::Duration;

use bytes::Bytes;
use rvc_poster::{
    Connecting, Connector, Endpoint, EventPoster, EventPosterBuilder, OutgoingEvent, Transport,
};
use rvc_sign::Secret;
use rvc_test::{Received, Reply, ScriptedEndpoint};
use rvc_wire::{EventId, EventType, Map, Seq, TaskEvent, Timestamp};
use tokio::time::{Instant, sleep};
use tracing::Span;

/// Connects to a scripted endpoint in memory.
pub(crate) struct Memory(pub(crate) ScriptedEndpoint);

impl Connector for Memory {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let stream = self.0.connect().await?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}

pub(crate) const SECRET: &[u8] = b"hunter2";

pub(crate) fn secret() -> Secret {
    Secret::new(SECRET).unwrap()
}

/// A builder of a poster for an endpoint in memory.
pub(crate) fn builder(endpoint: &ScriptedEndpoint) -> EventPosterBuilder {
    let url = Endpoint::new("http://brain:8000/api/agent/events?robot=1", secret()).unwrap();
    EventPoster::builder("navigation".parse().unwrap(), url)
        .connector(Memory(endpoint.clone()))
        .clock(|| 1_765_532_000)
}

/// A poster for an endpoint in memory.
pub(crate) fn poster(endpoint: &ScriptedEndpoint) -> EventPoster {
    builder(endpoint).build().unwrap()
}

/// A poster for an endpoint on a TCP port of this machine.
pub(crate) async fn tcp_poster(endpoint: &ScriptedEndpoint) -> EventPoster {
    let address = endpoint.listen().await.unwrap();
    let url = Endpoint::new(&format!("http://{address}/events"), secret()).unwrap();
    EventPoster::builder("navigation".parse().unwrap(), url)
        .build()
        .unwrap()
}

pub(crate) fn task_event(task: &str, seq: u64, event_type: EventType) -> TaskEvent {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&seq.to_be_bytes());
    TaskEvent {
        schema_version: 1,
        event_id: EventId::from_random(id),
        task_id: task.parse().unwrap(),
        server: "navigation".parse().unwrap(),
        tool: "navigate_to".parse().unwrap(),
        event_type,
        seq: Seq::try_from(seq).unwrap(),
        ts: Timestamp::from_unix_ms(1_765_532_000_123).unwrap(),
        payload: Map::new(),
    }
}

pub(crate) fn event(task: &str, seq: u64, event_type: EventType) -> OutgoingEvent {
    let event = task_event(task, seq, event_type);
    let body = Bytes::from(event.to_json());
    OutgoingEvent::new(&event, body, Span::none())
}

pub(crate) fn progress(task: &str, seq: u64) -> OutgoingEvent {
    event(task, seq, EventType::Progress)
}

/// The event of a request.
pub(crate) fn parse(received: &Received) -> TaskEvent {
    TaskEvent::from_json(&received.body).unwrap()
}

/// Which events came in, and again if they came again.
pub(crate) fn seen(endpoint: &ScriptedEndpoint) -> Vec<(String, u64)> {
    let received = endpoint.received();
    let task_and_seq = |received| {
        let event = parse(received);
        (event.task_id.to_string(), event.seq.get())
    };
    received.iter().map(task_and_seq).collect()
}

/// Which of a task's events came in, and again if they came again.
pub(crate) fn seqs(endpoint: &ScriptedEndpoint, task: &str) -> Vec<u64> {
    let of_task = seen(endpoint).into_iter().filter(|(of, _)| of == task);
    of_task.map(|(_, seq)| seq).collect()
}

/// When requests came in, in seconds from a start.
pub(crate) fn times(endpoint: &ScriptedEndpoint, start: Instant) -> Vec<f64> {
    let received = endpoint.received();
    let since_start = |received: &Received| (received.at - start).as_secs_f64();
    received.iter().map(since_start).collect()
}

/// An endpoint that gives some tasks' events a reply of their own, and acknowledges the others.
pub(crate) fn by_task(reply: impl Fn(&str) -> Option<Reply> + Send + 'static) -> ScriptedEndpoint {
    ScriptedEndpoint::new(move |received| {
        let task = parse(received).task_id;
        reply(task.as_str()).unwrap_or(Reply::status(200))
    })
}

/// Waits, by tokio's clock, until something is so.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Asserts that times are as expected, give or take what a timer rounds up.
#[track_caller]
pub(crate) fn assert_times(times: &[f64], expected: &[f64]) {
    let is_near = |(time, expected): (&f64, &f64)| (time - expected).abs() < 0.05;
    assert!(
        times.len() == expected.len() && times.iter().zip(expected).all(is_near),
        "{times:?} instead of {expected:?}"
    );
}
