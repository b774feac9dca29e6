use rvc_inbox::{Accepted, EventService, Inbox, Kind, NotNow};
use rvc_sign::Secret;
use rvc_wire::TaskEvent;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::program::DEADLINE;

pub(crate) const SECRET: &str = "for-tests";

/// A verifying receiver in this process.
pub(crate) struct Receiver {
    pub(crate) url: String,
    events: UnboundedReceiver<TaskEvent>,
}

impl Receiver {
    /// Listens for the events of one server.
    pub(crate) async fn of(server: &str) -> Self {
        let secret = Secret::new(SECRET.as_bytes()).expect("it is not empty");
        let server = server.parse().expect("it is a server name");
        let inbox = Inbox::builder()
            .server(server, [secret])
            .build()
            .expect("it has a server");
        let (sender, events) = unbounded_channel();
        let handler = move |accepted: Accepted| {
            assert!(accepted.gap.is_none(), "{accepted:?}");
            if accepted.kind == Kind::New {
                // The test may have seen enough.
                let _ = sender.send(accepted.event);
            }
            std::future::ready(Ok::<(), NotNow>(()))
        };
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("loopback has free ports");
        let address = listener.local_addr().expect("it is bound");
        let service = EventService::builder(inbox, handler).build();
        tokio::spawn(rvc_inbox::serve(listener, service, std::future::pending()));
        Self {
            url: format!("http://{address}/api/agent/events"),
            events,
        }
    }

    /// What makes a server send its events here.
    pub(crate) fn variables(&self) -> [(&str, &str); 2] {
        [
            ("RVC_CALLBACK_URL", &self.url),
            ("RVC_EVENT_SECRET", SECRET),
        ]
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> TaskEvent {
        let event = timeout(DEADLINE, self.events.recv())
            .await
            .expect("an event comes in time");
        event.expect("the receiver runs")
    }
}
