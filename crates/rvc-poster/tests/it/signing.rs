use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rvc_sign::{Headers, Verifier};
use rvc_test::{Logs, Received, Reply, ScriptedEndpoint};
use tokio::time::sleep;
use tracing::Level;

use crate::support::{builder, poster, progress, seconds, secret, task_event};

/// Checks a request as a receiver with this clock does.
fn verify(received: &Received, now: i64) -> Result<usize, rvc_sign::VerifyError> {
    let pairs = received.headers.iter();
    let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_str()));
    let headers = Headers::from_pairs(pairs)?;
    Verifier::new([secret()]).verify(&headers, &received.body, now)
}

#[tokio::test(start_paused = true)]
async fn a_request_is_the_contracts_to_the_header() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.close(seconds(5.0)).await;

    let [request] = &endpoint.received()[..] else {
        panic!("one request came");
    };
    assert_eq!(request.method, "POST");
    assert_eq!(request.target, "/api/agent/events?robot=1");
    let body = task_event("nav-1", 1, rvc_wire::EventType::Progress).to_json();
    assert_eq!(request.body, body);
    let length = body.len().to_string();
    for (name, value) in [
        ("host", "brain:8000"),
        ("content-type", "application/json"),
        ("content-length", &length),
        ("x-rvc-server", "navigation"),
        ("x-rvc-timestamp", "1765532000"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    assert_eq!(request.header("transfer-encoding"), None);
    assert_eq!(verify(request, 1_765_532_000), Ok(0));
}

#[tokio::test(start_paused = true)]
async fn a_retry_signs_afresh_and_changes_neither_id_nor_body() {
    let endpoint = ScriptedEndpoint::answering([500; 10]);
    let start = tokio::time::Instant::now();
    let now = move || 1_765_532_000 + i64::try_from(start.elapsed().as_secs()).unwrap();
    let poster = builder(&endpoint).clock(now).build().unwrap();
    poster.post(progress("nav-1", 1));
    // Longer than the receiver's tolerance of 300 s.
    sleep(seconds(500.0)).await;
    poster.close(seconds(5.0)).await;

    let requests = endpoint.received();
    assert_eq!(requests.len(), 11);
    for request in &requests {
        assert_eq!(request.body, requests[0].body);
        let at = 1_765_532_000 + i64::try_from((request.at - start).as_secs()).unwrap();
        assert_eq!(request.header("x-rvc-timestamp").unwrap(), at.to_string());
        assert_eq!(verify(request, at), Ok(0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_at_1970_warns_once_an_hour_and_recovers_when_it_is_set() {
    let logs = Logs::capture();
    let clock = Arc::new(AtomicI64::new(100));
    let now = 784_111_777; // Sun, 06 Nov 1994 08:49:37 GMT
    let endpoint = ScriptedEndpoint::new(move |received| {
        let answer = match verify(received, now) {
            Ok(_) => Reply::status(200),
            Err(_) => Reply::status(401),
        };
        answer.header("date", "Sun, 06 Nov 1994 08:49:37 GMT")
    });
    let own = clock.clone();
    let poster = builder(&endpoint)
        .clock(move || own.load(Ordering::Relaxed))
        .build()
        .unwrap();
    poster.post(progress("nav-1", 1));
    sleep(seconds(120.0)).await;
    clock.store(now, Ordering::Relaxed);
    assert!(poster.close(seconds(60.0)).await.is_complete());

    let mut warnings = logs.at(Level::WARN);
    warnings.retain(|line| line.field("skew_s").is_some());
    let [warning] = &warnings[..] else {
        panic!("one warning: {warnings:?}");
    };
    assert_eq!(warning.field("skew_s"), Some("784111677"));
    assert_eq!(warning.field("direction"), Some("behind"));
    let requests = endpoint.received();
    assert_eq!(requests[0].header("x-rvc-timestamp"), Some("100"));
    assert_eq!(verify(requests.last().unwrap(), now), Ok(0));
}

#[tokio::test(start_paused = true)]
async fn a_clock_before_1970_signs_with_0() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = builder(&endpoint).clock(|| -5).build().unwrap();
    poster.post(progress("nav-1", 1));
    poster.close(seconds(5.0)).await;
    let requests = endpoint.received();
    assert_eq!(requests[0].header("x-rvc-timestamp"), Some("0"));
    assert_eq!(verify(&requests[0], 0), Ok(0));
}
