//! Delivering signed events, beside a bare hyper loop that posts the same bytes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rvc_poster::{Endpoint, EventPoster, OutgoingEvent, QueueLimits};
use rvc_sign::{SERVER_HEADER, SIGNATURE_HEADER, Secret, SignedHeaders, TIMESTAMP_HEADER};
use rvc_wire::{EventId, EventType, Seq, TaskEvent, Timestamp};
use serde_json::json;
use tokio::net::TcpStream;

use crate::measure::{Measurement, paired};
use crate::placement;
use crate::receiver::Receiver;

/// The events of one run, in all tasks together.
const EVENTS: u32 = 20_000;

pub(crate) fn one_task_in_order() -> anyhow::Result<Measurement> {
    delivery("deliver_1_task_in_order", 1)
}

pub(crate) fn sixty_four_tasks() -> anyhow::Result<Measurement> {
    delivery("deliver_64_tasks", 64)
}

fn delivery(name: &'static str, streams: u32) -> anyhow::Result<Measurement> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let receiver = Receiver::start()?;
    let addr = receiver.addr;

    let ours = || runtime.block_on(post_events(addr, streams));
    let bare = || runtime.block_on(post_bare(addr, streams));
    let (value, limit) = paired(ours, bare)?;

    Ok(Measurement {
        name,
        value,
        limit,
        unit: "events/s",
        conditions: format!(
            "limit: {streams} bare hyper conn::http1 loops that sign the same bytes; one thread \
             here, the receiver in another process; {}",
            placement::stated()
        ),
    })
}

async fn post_events(addr: SocketAddr, tasks: u32) -> anyhow::Result<f64> {
    let endpoint = Endpoint::new(
        &format!("http://{addr}/api/agent/events"),
        Secret::new(b"bench")?,
    )?;
    let poster = EventPoster::builder("bench".parse()?, endpoint)
        .max_connections(tasks as usize)
        .queue(QueueLimits {
            events: 2 * EVENTS as usize,
            bytes: 256 << 20,
        })
        .build()?;
    let events: Vec<OutgoingEvent> = (0..EVENTS)
        .map(|n| OutgoingEvent::encode(&event(n % tasks, n / tasks)))
        .collect();

    let start = Instant::now();
    for event in events {
        poster.post(event);
    }
    let report = poster.close(Duration::from_secs(120)).await;
    let rate = f64::from(EVENTS) / start.elapsed().as_secs_f64();

    ensure!(
        report.is_complete(),
        "{} events were not delivered",
        report.total()
    );
    Ok(rate)
}

async fn post_bare(addr: SocketAddr, streams: u32) -> anyhow::Result<f64> {
    let bodies: Vec<Vec<Bytes>> = (0..streams)
        .map(|task| {
            (0..EVENTS / streams)
                .map(|n| Bytes::from(event(task, n).to_json()))
                .collect()
        })
        .collect();
    let sent: usize = bodies.iter().map(Vec::len).sum();

    let start = Instant::now();
    let loops: Vec<_> = bodies
        .into_iter()
        .map(|bodies| tokio::spawn(post_in_order(addr, bodies)))
        .collect();
    for posting in loops {
        posting.await??;
    }
    Ok(f64::from(u32::try_from(sent)?) / start.elapsed().as_secs_f64())
}

async fn post_in_order(addr: SocketAddr, bodies: Vec<Bytes>) -> anyhow::Result<()> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let secret = Secret::new(b"bench")?;
    for body in bodies {
        let signed = SignedHeaders::new(&secret, 1_765_532_000, &body);
        let request = Request::post("/api/agent/events")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header(SERVER_HEADER, "bench")
            .header(TIMESTAMP_HEADER, signed.timestamp())
            .header(SIGNATURE_HEADER, signed.signature())
            .body(Full::new(body))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        response
            .into_body()
            .collect()
            .await
            .context("read the answer")?;
    }
    drop(sender);
    driver.await??;
    Ok(())
}

/// About 600 bytes, like a robot's progress.
fn event(task: u32, n: u32) -> TaskEvent {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&task.to_be_bytes());
    id[4..8].copy_from_slice(&n.to_be_bytes());
    let payload = json!({
        "eta_s": 22.4, "distance_m": 14.1, "percent": 60, "n": n,
        "pose": { "x": 12.345_678, "y": -3.210_987, "yaw": 0.785_2 },
        "path": "x".repeat(256),
    });
    TaskEvent {
        schema_version: rvc_wire::SCHEMA_VERSION,
        event_id: EventId::from_random(id),
        task_id: format!("benc-{task:06x}")
            .parse()
            .expect("an id that is not empty"),
        server: "bench".parse().expect("a name"),
        tool: "navigate_to".parse().expect("a name"),
        event_type: EventType::WatchEvent,
        seq: Seq::try_from(u64::from(n) + 1).expect("it starts at 1"),
        ts: Timestamp::from_unix_ms(1_765_532_000_123).expect("a time of this century"),
        payload: payload
            .as_object()
            .expect("it is written as an object")
            .clone(),
    }
}
