use rvc_wire::ServerName;

use crate::{Clock, EventSink};

/// What the tasks of a manager share: whose they are, and their ways to the world.
pub(crate) struct Port {
    pub(crate) server: ServerName,
    pub(crate) sink: Box<dyn EventSink>,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) max_event_bytes: usize,
}
