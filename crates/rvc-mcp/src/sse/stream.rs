//! The body of an event stream's response.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::sse::frame;
use crate::sse::session::{OpenSession, Outgoing};

/// How long a stream may be silent; rmcp's streamable HTTP server uses the same.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The frames of one session, as they come; ends when the session's service does.
#[derive(Debug)]
pub(crate) struct EventStream {
    first: Option<Bytes>,
    outgoing: mpsc::Receiver<Outgoing>,
    silence: Interval,
    /// Ends the session with the stream.
    _session: OpenSession,
}

impl EventStream {
    pub(crate) fn new(
        first: Bytes,
        outgoing: mpsc::Receiver<Outgoing>,
        session: OpenSession,
    ) -> Self {
        let mut silence = interval(KEEP_ALIVE);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        silence.reset();
        Self {
            first: Some(first),
            outgoing,
            silence,
            _session: session,
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        match this.outgoing.poll_recv(cx) {
            Poll::Ready(Some(Outgoing { frame, debt })) => {
                this.silence.reset();
                // Handed to the connection: paid.
                drop(debt);
                Poll::Ready(Some(Ok(Frame::data(frame))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => this
                .silence
                .poll_tick(cx)
                .map(|_| Some(Ok(Frame::data(frame::KEEP_ALIVE)))),
        }
    }
}
