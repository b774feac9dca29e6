//! One kept-alive HTTP/1.1 connection, driven by the task that uses it.
//!
//! The connection is polled beside each request instead of by a task of its own: an answer wakes
//! the one task that waits for it, and nothing runs in between.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::unconstrained;

use crate::connector::Transport;

/// A connection and its state.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` after the connection has ended.
    driver: Option<Driver>,
    received: Arc<AtomicBool>,
}

/// Why a request got no answer.
pub(crate) struct NoAnswer {
    pub(crate) error: hyper::Error,
    /// Whether any byte came back after the request was handed over.
    pub(crate) received: bool,
}

impl Connection {
    pub(crate) async fn open(transport: Box<dyn Transport>) -> Result<Self, hyper::Error> {
        let received = Arc::new(AtomicBool::new(false));
        let io = TokioIo::new(Watched {
            transport,
            received: received.clone(),
        });
        let (sender, driver) = http1::handshake(io).await?;
        Ok(Self {
            sender,
            driver: Some(driver),
            received,
        })
    }

    /// Whether a request can be sent now. Only a hint: the peer may close it at any time.
    pub(crate) fn is_ready(&mut self) -> bool {
        // Nobody is to be woken: the connection is polled again with the request, which would
        // otherwise wake its own task once for nothing.
        let mut cx = Context::from_waker(Waker::noop());
        poll_driver(&mut self.driver, &mut cx);
        // One that is still busy, with a request that was answered before its end, is of no use
        // either.
        matches!(self.sender.poll_ready(&mut cx), Poll::Ready(Ok(())))
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&mut self) {
        poll_fn(|cx| {
            poll_driver(&mut self.driver, cx);
            if self.driver.is_none() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Sends a request and waits for the answer's head.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, NoAnswer> {
        self.received.store(false, Ordering::Relaxed);
        // The answer comes from the connection, and so from this very task: to be woken for it
        // would be once too often. Without a budget, for that would have to wake it, too.
        let mut answer = pin!(unconstrained(self.sender.try_send_request(request)));
        let driver = &mut self.driver;
        poll_fn(|cx| {
            poll_driver(driver, cx);
            answer
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
        })
        .await
        .map_err(|error| NoAnswer {
            error: error.into_error(),
            received: self.received.load(Ordering::Relaxed),
        })
    }

    /// Reads an answer's body to its end, so that the connection can be used again, and returns
    /// its beginning. False if it has no end within `most` bytes.
    pub(crate) async fn drain(
        &mut self,
        mut body: Incoming,
        most: usize,
        excerpt: &mut Vec<u8>,
    ) -> bool {
        let mut size = 0;
        while !body.is_end_stream() {
            let frame = poll_fn(|cx| {
                poll_driver(&mut self.driver, cx);
                Pin::new(&mut body).poll_frame(cx)
            })
            .await;
            let Some(Ok(frame)) = frame else {
                return frame.is_none();
            };
            if let Some(data) = frame.data_ref() {
                size += data.len();
                let room = EXCERPT.saturating_sub(excerpt.len()).min(data.len());
                excerpt.extend_from_slice(&data[..room]);
            }
            if size > most {
                return false;
            }
        }
        true
    }
}

type Driver = http1::Connection<TokioIo<Watched>, Full<Bytes>>;

fn poll_driver(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    if let Some(running) = driver
        && Pin::new(running).poll(cx).is_ready()
    {
        // Its error is the request's too, which reports it.
        *driver = None;
    }
}

/// A transport that remembers whether anything came in.
struct Watched {
    transport: Box<dyn Transport>,
    received: Arc<AtomicBool>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.transport).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.received.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}

/// How many bytes of an answer's body are kept for the log.
const EXCERPT: usize = 200;
