use std::fmt;

use bytes::Bytes;
use rvc_wire::{EventId, EventType, Seq, TaskEvent, TaskId, ToolName};
use tracing::Span;

/// An event as the poster takes it: what the queue and the logs need, and the body's bytes.
///
/// The bytes are encoded once. Every attempt signs and sends these (contract decision 9).
#[derive(Clone)]
pub struct OutgoingEvent {
    event_id: EventId,
    task_id: TaskId,
    tool: ToolName,
    event_type: EventType,
    seq: Seq,
    body: Bytes,
    span: Span,
}

impl OutgoingEvent {
    /// Pairs an event with the bytes that it was already encoded to.
    ///
    /// Everything that is logged of the event is logged inside `span`, so that what the span
    /// carries (a `traceparent`, a mission) appears there.
    #[must_use]
    pub fn new(event: &TaskEvent, body: Bytes, span: Span) -> Self {
        Self {
            event_id: event.event_id.clone(),
            task_id: event.task_id.clone(),
            tool: event.tool.clone(),
            event_type: event.event_type.clone(),
            seq: event.seq,
            body,
            span,
        }
    }

    /// Encodes an event; its span is the current one.
    #[must_use]
    pub fn encode(event: &TaskEvent) -> Self {
        Self::new(event, event.to_json().into(), Span::current())
    }

    /// What the receiver dedupes on.
    #[must_use]
    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }

    /// The task that it tells of: its line in the queue.
    #[must_use]
    pub fn task_id(&self) -> &TaskId {
        &self.task_id
    }

    /// The tool that started the task.
    #[must_use]
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// What it reports; the queue sheds by it.
    #[must_use]
    pub fn event_type(&self) -> &EventType {
        &self.event_type
    }

    /// Its position in the task.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The request's body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The span that its log lines are written in.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }
}

impl fmt::Debug for OutgoingEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingEvent")
            .field("event_id", &self.event_id)
            .field("task_id", &self.task_id)
            .field("type", &self.event_type)
            .field("seq", &self.seq)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
