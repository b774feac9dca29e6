//! Events for the unit tests.

use bytes::Bytes;
use rvc_wire::{EventId, EventType, Map, Seq, TaskEvent, Timestamp};
use tracing::Span;

use crate::OutgoingEvent;

/// An event of 100 bytes.
pub(crate) fn event(task: &str, seq: u64, event_type: EventType) -> OutgoingEvent {
    sized_event(task, seq, event_type, 100)
}

/// An event whose body has this many bytes.
pub(crate) fn sized_event(
    task: &str,
    seq: u64,
    event_type: EventType,
    bytes: usize,
) -> OutgoingEvent {
    let event = TaskEvent {
        schema_version: 1,
        event_id: EventId::from_random([7; 16]),
        task_id: task.parse().expect("a task id"),
        server: "navigation".parse().expect("a server name"),
        tool: "navigate_to".parse().expect("a tool name"),
        event_type,
        seq: Seq::try_from(seq).expect("a seq from 1"),
        ts: Timestamp::from_unix_ms(0).expect("a time"),
        payload: Map::new(),
    };
    OutgoingEvent::new(&event, Bytes::from(vec![b' '; bytes]), Span::none())
}
