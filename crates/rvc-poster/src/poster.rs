use std::time::Duration;

use rvc_wire::ServerName;

use crate::{CloseReport, OutgoingEvent};

/// Posts events to one endpoint, or to none. Clones share one queue.
#[derive(Clone, Debug)]
pub struct EventPoster {
    server: ServerName,
}

impl EventPoster {
    /// A poster without an endpoint: it logs each event at DEBUG (contract section 3.4).
    #[must_use]
    pub fn disabled(server: ServerName) -> Self {
        Self { server }
    }

    /// The server whose events these are.
    #[must_use]
    pub fn server(&self) -> &ServerName {
        &self.server
    }

    /// Takes an event for delivery. Never blocks, fails or panics, also outside a runtime and
    /// after a close.
    pub fn post(&self, event: OutgoingEvent) {
        event.span().in_scope(|| {
            tracing::debug!(
                server = %self.server,
                task_id = %event.task_id(),
                tool = %event.tool(),
                event_id = %event.event_id(),
                seq = event.seq().get(),
                r#type = event.event_type().as_str(),
                "event not posted, there is no endpoint"
            );
        });
    }

    /// Stops taking events, delivers for `drain`, and reports what was left.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its end, the poster takes no more events but goes on with those it has;
    /// calling it again waits again.
    pub async fn close(&self, drain: Duration) -> CloseReport {
        
        CloseReport::default()
    }
}
