use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use rvc_poster::{Connecting, Connector, EventPoster, Transport};
use rvc_test::{Logs, Reply, ScriptedEndpoint};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Level;

use crate::support::{
    assert_times, builder, by_task, poster, progress, seconds, seqs, tcp_poster, times, until,
};

/// No attempt failed: there is no warning, and nothing had to wait for a retry.
#[track_caller]
fn assert_all_came(endpoint: &ScriptedEndpoint, logs: &Logs, last: u64) {
    assert!(
        logs.at(Level::WARN).is_empty(),
        "{:?}",
        logs.at(Level::WARN)
    );
    let mut seqs = seqs(endpoint, "nav-1");
    // A request that the endpoint read before it closed the connection comes again.
    seqs.dedup();
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_after_each_answer_costs_no_attempt() {
    let logs = Logs::capture();
    let start = Instant::now();
    let endpoint = by_task(|_| Some(Reply::status(200).then_close()));
    let poster = poster(&endpoint);
    for seq in 1..=100 {
        poster.post(progress("nav-1", seq));
    }
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_all_came(&endpoint, &logs, 100);
    assert!(times(&endpoint, start).iter().all(|&time| time < 0.01));
}

#[tokio::test]
async fn a_socket_that_is_closed_after_each_answer_costs_no_attempt() {
    let logs = Logs::capture();
    let endpoint = by_task(|_| Some(Reply::status(200).then_close()));
    let poster = tcp_poster(&endpoint).await;
    for seq in 1..=300 {
        poster.post(progress("nav-1", seq));
    }
    assert!(poster.close(seconds(60.0)).await.is_complete());
    assert_all_came(&endpoint, &logs, 300);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_kept_connection_swallows_is_sent_again_at_once() {
    let logs = Logs::capture();
    let start = Instant::now();
    // The second request is read, and the connection closed without a byte.
    let endpoint = ScriptedEndpoint::answering([Reply::status(200), Reply::close()]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));
    assert!(poster.close(seconds(5.0)).await.is_complete());

    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2, 2]);
    assert_times(&times(&endpoint, start), &[0.0, 0.0, 0.0]);
    assert!(logs.at(Level::WARN).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_on_a_kept_connection_costs_the_attempt() {
    let start = Instant::now();
    let endpoint =
        ScriptedEndpoint::answering([Reply::status(200), Reply::Raw("HTTP/1.1 2".into())]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2, 2]);
    assert_times(&times(&endpoint, start), &[0.0, 0.0, 0.5]);
}

#[tokio::test(start_paused = true)]
async fn an_announced_close_is_followed() {
    let endpoint = by_task(|_| {
        let answer = Reply::status(200).header("connection", "close");
        Some(answer.then_close())
    });
    let poster = poster(&endpoint);
    for seq in 1..=10 {
        poster.post(progress("nav-1", seq));
    }
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), (1..=10).collect::<Vec<_>>());
    assert_eq!(endpoint.connects(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_needed_for_a_minute_is_closed() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    sleep(seconds(59.0)).await;
    assert_eq!(endpoint.open(), 1);
    sleep(seconds(2.0)).await;
    assert_eq!(endpoint.open(), 0);

    poster.post(progress("nav-1", 2));
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2]);
}

/// A network whose address changes: what was connected before is silent from then on.
struct Network {
    endpoint: ScriptedEndpoint,
    address: Arc<AtomicUsize>,
}

impl Connector for Network {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let stream = self.endpoint.connect().await?;
            let roaming = Roaming {
                stream,
                from: self.address.load(Ordering::Relaxed),
                address: Arc::clone(&self.address),
            };
            Ok(Box::new(roaming) as Box<dyn Transport>)
        })
    }
}

/// Takes everything and brings nothing once the address is another.
struct Roaming {
    stream: DuplexStream,
    from: usize,
    address: Arc<AtomicUsize>,
}

impl Roaming {
    fn is_dead(&self) -> bool {
        self.from != self.address.load(Ordering::Relaxed)
    }
}

impl AsyncRead for Roaming {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_dead() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Roaming {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_dead() {
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A poster with eight kept connections, and what changes their network.
async fn eight_connections(endpoint: &ScriptedEndpoint) -> (EventPoster, Arc<AtomicUsize>) {
    let address = Arc::new(AtomicUsize::new(0));
    let network = Network {
        endpoint: endpoint.clone(),
        address: Arc::clone(&address),
    };
    let poster = builder(endpoint).connector(network).build().unwrap();
    post_to_eight(&poster, 1);
    until(|| endpoint.received().len() == 8).await;
    assert_eq!(endpoint.open(), 8);
    (poster, address)
}

fn post_to_eight(poster: &EventPoster, seq: u64) {
    for task in 0..8 {
        poster.post(progress(&format!("nav-{task}"), seq));
    }
}

#[tokio::test(start_paused = true)]
async fn kept_connections_that_died_in_silence_cost_one_time_out_and_not_one_each() {
    let endpoint = by_task(|_| Some(Reply::status(200).after(seconds(0.1))));
    let start = Instant::now();
    let (poster, address) = eight_connections(&endpoint).await;
    sleep_until(start + seconds(1.0)).await;
    address.store(1, Ordering::Relaxed);

    poster.post(progress("first", 1));
    sleep(seconds(12.0)).await;
    post_to_eight(&poster, 2);
    sleep(seconds(1.0)).await;

    let mut expected = vec![0.0; 8];
    expected.push(11.5);
    expected.extend([13.0; 8]);
    assert_times(&times(&endpoint, start), &expected);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_answers_while_another_is_silent_is_kept() {
    let endpoint = by_task(|task| match task {
        "hung" => Some(Reply::Hang),
        _ => Some(Reply::status(200).after(seconds(0.1))),
    });
    let (poster, _) = eight_connections(&endpoint).await;
    sleep(seconds(1.0)).await;
    poster.post(progress("hung", 1));
    sleep(seconds(1.0)).await;
    // While it hangs, one connection proves itself.
    poster.post(progress("nav-0", 2));
    sleep(seconds(9.2)).await;
    assert_eq!(endpoint.connects(), 8);

    // One takes the place of the connection that was given up, the other one is the proven.
    poster.post(progress("nav-0", 3));
    poster.post(progress("nav-1", 2));
    until(|| seqs(&endpoint, "nav-1").len() == 2).await;
    assert_eq!(endpoint.connects(), 9);
}
