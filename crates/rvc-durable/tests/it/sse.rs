//! Contract servers over HTTP+SSE, good ones and bad ones. On real time, with limits that matter
//! only where a test waits for them.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rvc_durable::remote::{DialError, HttpDialer, Token, TokenSource};
use rvc_durable::{
    Durable, Linkage, Outcome, Phase, Registration, RemoteKind, StartPolicy, TransportKind,
};
use serde_json::{Value, json};

use crate::live::{PATIENCE, durable_over, in_vain};
use crate::rotating::Rotating;
use crate::sse_peer::{Opening, Sse, SsePeer};
use crate::world::{code, id, submission};

/// Where the answer does not come.
const HURRY: Duration = Duration::from_secs(2);

async fn durable_with(url: &str, dialer: HttpDialer, patience: Duration) -> Durable {
    durable_over(TransportKind::Sse, url, dialer, patience).await
}

async fn durable(url: &str) -> Durable {
    let dialer = HttpDialer::builder().max_result_bytes(1 << 20);
    durable_with(url, dialer.build().unwrap(), PATIENCE).await
}

async fn run(peer: &SsePeer, policy: StartPolicy) -> (Outcome, Linkage) {
    run_on(durable(&peer.url).await, policy).await
}

async fn run_on(durable: Durable, policy: StartPolicy) -> (Outcome, Linkage) {
    durable
        .submit(submission("a").policy(policy))
        .await
        .unwrap();
    let outcome = tokio::time::timeout(PATIENCE * 3, durable.outcome(&id("a")))
        .await
        .unwrap()
        .unwrap();
    let row = durable.action(&id("a")).await.unwrap().unwrap();
    durable.close().await;
    (outcome, row)
}

fn info(state: &str, with: &Value) -> Sse {
    let at = "2026-06-12T14:03:00.123Z";
    let mut info = json!({
        "task_id": "nav-7f3a2b", "server": "navigation", "tool": "navigate_to", "state": state,
        "created_at": at, "updated_at": at, "triggers": [], "est_duration_s": null,
        "progress": null, "result": null, "failure": null
    });
    for (key, value) in with.as_object().unwrap() {
        info[key] = value.clone();
    }
    Sse::Json(info)
}

fn running() -> Sse {
    info("running", &json!({}))
}

fn succeeded() -> Sse {
    info("succeeded", &json!({"result": {"at": "kitchen"}}))
}

#[tokio::test]
async fn a_contract_task_is_followed_over_sse_and_the_extension_is_not_declared() {
    let peer = SsePeer::new(|tool, _, nth| match (tool, nth) {
        ("get_task", 3..) => succeeded(),
        _ => running(),
    })
    .await;

    let (outcome, row) = run(&peer, StartPolicy::AtMostOnce).await;

    assert_eq!(outcome.phase, Phase::Completed);
    let result = outcome.result.unwrap();
    assert_eq!(result.structured_content, Some(json!({"at": "kitchen"})));
    assert_eq!(row.remote.unwrap().kind, RemoteKind::Contract);
    assert_eq!((row.starts, peer.count("navigate_to")), (1, 1));
    assert_eq!(peer.count("GET"), 1, "one stream for everything");
    let bodies = peer.bodies();
    assert_eq!(bodies[0]["method"], "initialize");
    assert_eq!(bodies[1]["method"], "notifications/initialized");
    let capabilities = &bodies[0]["params"]["capabilities"];
    assert_eq!(capabilities.get("extensions"), None, "{capabilities}");
}

#[tokio::test]
async fn a_cancelled_action_cancels_its_task_over_sse() {
    let peer = SsePeer::new(|tool, _, _| match tool {
        "cancel_task" => Sse::Json(json!({"task_id": "nav-7f3a2b", "state": "cancelled"})),
        _ => running(),
    })
    .await;
    let durable = durable(&peer.url).await;
    durable.submit(submission("a")).await.unwrap();
    while peer.count("get_task") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    durable.cancel_action(&id("a")).await.unwrap();
    durable.idle().await.unwrap();

    let row = durable.action(&id("a")).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Cancelled);
    assert_eq!(row.remote.unwrap().status, "cancelled");
    assert_eq!(peer.count("cancel_task"), 1);
    durable.close().await;
}

#[tokio::test]
async fn a_refused_start_is_posted_once_and_no_redirect_is_followed() {
    let elsewhere = SsePeer::new(|_, _, _| running()).await;
    for status in [
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
        "404 Not Found",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "503 Service Unavailable",
    ] {
        let to = elsewhere.url.clone();
        let peer = SsePeer::new(move |_, _, _| Sse::Status(status, vec![("location", to.clone())]));
        let peer = peer.await;

        let (outcome, _) = run(&peer, StartPolicy::AtMostOnce).await;

        assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN", "{status}");
        assert_eq!(peer.count("navigate_to"), 1, "{status}");
    }
    assert_eq!(elsewhere.count("navigate_to"), 0);
}

#[tokio::test]
async fn credentials_that_are_refused_fail_the_start_and_delay_a_poll() {
    for (status, expected) in [("401 Unauthorized", "401"), ("403 Forbidden", "403")] {
        let peer = SsePeer::new(move |_, _, _| Sse::Status(status, vec![])).await;
        let (outcome, _) = run(&peer, StartPolicy::AtMostOnce).await;
        assert_eq!((outcome.phase, code(&outcome)), (Phase::Failed, expected));
        assert_eq!(peer.count("navigate_to"), 1);

        let peer = SsePeer::new(move |tool, _, nth| match (tool, nth) {
            ("navigate_to", _) => running(),
            (_, 1..=2) => Sse::Status(status, vec![]),
            _ => succeeded(),
        })
        .await;
        let (outcome, _) = run(&peer, StartPolicy::AtMostOnce).await;
        assert_eq!(outcome.phase, Phase::Completed);
    }
}

#[tokio::test]
async fn under_at_most_once_a_401_in_a_kept_session_ends_the_action_and_is_its_only_start() {
    let peer = SsePeer::new(|_, _, nth| match nth {
        2 => Sse::Status("401 Unauthorized", vec![]),
        _ => Sse::Result(json!({"content": []})),
    })
    .await;
    let dialer = HttpDialer::builder().tokens(std::sync::Arc::new(Rotating::default()));
    let durable = durable_with(&peer.url, dialer.build().unwrap(), PATIENCE).await;
    for (action, expected, sessions) in [("a", "", 1), ("b", "401", 1), ("c", "", 2)] {
        durable.submit(submission(action)).await.unwrap();

        let outcome = durable.outcome(&id(action)).await.unwrap();

        assert_eq!((code(&outcome), peer.count("GET")), (expected, sessions));
    }
    assert_eq!(peer.count("navigate_to"), 3);
    durable.close().await;
}

#[tokio::test]
async fn the_id_of_a_session_is_in_no_reason() {
    let secret = "sid=1";
    // Of a start that was not sent.
    let peer = SsePeer::opening(Opening::Vanishing, |_, _, _| running()).await;
    let durable = durable(&peer.url).await;
    durable.submit(submission("a")).await.unwrap();
    let last = loop {
        let row = durable.action(&id("a")).await.unwrap().unwrap();
        if let Some(last) = row.trouble.last {
            break last;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(last.contains("HTTP request failed"), "{last}");
    assert!(!last.contains(secret), "{last}");
    durable.close().await;

    // Of one whose answer was lost.
    let peer = SsePeer::new(|_, _, _| Sse::HangUp).await;
    let (outcome, _) = run(&peer, StartPolicy::AtMostOnce).await;
    assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN");
    assert!(!outcome.message.contains(secret), "{}", outcome.message);

    // Of a session that is not taken.
    let foreign = Opening::Endpoint("http://elsewhere/messages?sid=1".into());
    let peer = SsePeer::opening(foreign, |_, _, _| running()).await;
    let durable = self::durable(&peer.url).await;
    let last = in_vain(&durable).await.trouble.last.unwrap();
    assert!(last.contains("another origin"), "{last}");
    assert!(!last.contains(secret), "{last}");
    durable.close().await;
}

#[tokio::test]
async fn a_result_that_is_too_large_and_names_its_request_last_is_reported() {
    let peer = SsePeer::new(|tool, _, _| match tool {
        "get_task" => Sse::HugeNamedLast(10 << 20),
        _ => running(),
    })
    .await;

    let (outcome, row) = run(&peer, StartPolicy::AtMostOnce).await;

    assert_eq!(code(&outcome), "RESULT_TOO_LARGE");
    assert_eq!(row.polls, 1, "it stays too large");
    assert_eq!(peer.count("GET"), 1);
}

#[tokio::test]
async fn an_answer_that_is_lost_is_an_unknown_start_and_is_repeated_where_that_is_allowed() {
    let patience = [PATIENCE, PATIENCE, HURRY];
    let ways = [Sse::HangUp, Sse::DropStream, Sse::Silence];
    for (lost, patience) in ways.into_iter().zip(patience) {
        let durable = async |peer: &SsePeer| {
            durable_with(&peer.url, HttpDialer::new().unwrap(), patience).await
        };
        let script = {
            let lost = lost.clone();
            move |tool: &str, _: &Value, nth: usize| match (tool, nth) {
                ("navigate_to", 1) => lost.clone(),
                ("navigate_to", _) => running(),
                _ => succeeded(),
            }
        };
        let peer = SsePeer::new(script.clone()).await;
        let (outcome, _) = run_on(durable(&peer).await, StartPolicy::AtMostOnce).await;
        assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN");
        assert_eq!(peer.count("navigate_to"), 1);

        let peer = SsePeer::new(script).await;
        let (outcome, _) = run_on(durable(&peer).await, StartPolicy::ServerDedup).await;
        assert_eq!(outcome.phase, Phase::Completed);
        assert_eq!(peer.count("navigate_to"), 2);
    }
}

#[tokio::test]
async fn a_stream_that_drops_is_opened_anew_and_the_task_is_followed_on() {
    let peer = SsePeer::new(|tool, _, nth| match (tool, nth) {
        ("get_task", 1 | 3) => Sse::DropStream,
        ("get_task", 5..) => succeeded(),
        _ => running(),
    })
    .await;

    let (outcome, row) = run(&peer, StartPolicy::AtMostOnce).await;

    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(row.starts, 1);
    assert_eq!(peer.count("GET"), 3);
}

#[tokio::test]
async fn a_refused_connection_sends_nothing_and_is_tried_again() {
    // A port that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    drop(listener);
    let durable = durable(&url).await;

    let row = in_vain(&durable).await;

    assert_eq!((row.phase, row.starts), (Phase::Intent, 0));
    durable.close().await;
}

#[tokio::test]
async fn a_start_that_finds_nobody_listening_is_proven_unsent() {
    // The stream lives on, and after the handshake POSTs find nobody.
    let peer = SsePeer::opening(Opening::Vanishing, |_, _, _| running()).await;
    let durable = durable(&peer.url).await;

    let row = in_vain(&durable).await;

    assert_eq!((row.phase, row.starts), (Phase::Intent, 0));
    assert_eq!(peer.count("initialize"), 1, "it was there");
    assert_eq!(peer.count("navigate_to"), 0);
    durable.close().await;
}

#[tokio::test]
async fn a_stream_that_cannot_be_had_gets_no_start_and_says_why() {
    let status = |status, headers| Opening::Status(status, headers);
    let to = "http://127.0.0.1:1/sse".to_owned();
    for (opening, why) in [
        (
            Opening::Endpoint("http://elsewhere/messages".into()),
            "another origin",
        ),
        (
            status("307 Temporary Redirect", vec![("location", to)]),
            "HTTP 307",
        ),
        (status("401 Unauthorized", vec![]), "credentials (HTTP 401)"),
        (status("404 Not Found", vec![]), "HTTP 404"),
        (status("200 OK", vec![]), "no event stream"),
    ] {
        let peer = SsePeer::opening(opening, |_, _, _| running()).await;
        let durable = durable(&peer.url).await;

        let row = in_vain(&durable).await;

        assert_eq!((row.phase, row.starts), (Phase::Intent, 0));
        let last = row.trouble.last.unwrap();
        assert!(last.contains(why), "{last}");
        assert_eq!(peer.bodies(), [] as [Value; 0], "nothing is posted");
        durable.close().await;
    }
}

#[tokio::test]
async fn a_retry_after_is_respected_when_polling_and_when_connecting() {
    let wait = || vec![("retry-after", "1".to_owned())];
    let peer = SsePeer::new(move |tool, _, nth| match (tool, nth) {
        ("navigate_to", _) => running(),
        (_, 1) => Sse::Status("429 Too Many Requests", wait()),
        _ => succeeded(),
    })
    .await;
    let begun = Instant::now();
    let (outcome, _) = run(&peer, StartPolicy::AtMostOnce).await;
    assert_eq!(outcome.phase, Phase::Completed);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(peer.count("get_task"), 2);

    let full = Opening::Status(
        "503 Service Unavailable",
        vec![("retry-after", "600".into())],
    );
    let peer = SsePeer::opening(full, |_, _, _| running()).await;
    let durable = durable(&peer.url).await;
    durable.submit(submission("a")).await.unwrap();
    let row = loop {
        let row = durable.action(&id("a")).await.unwrap().unwrap();
        if row.trouble.errors > 0 {
            break row;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let rest = row.next_due.unwrap().since(row.created_at);
    assert!(rest > Duration::from_secs(500), "{rest:?}");
    durable.close().await;
}

#[tokio::test]
async fn a_result_of_100_mib_is_too_large_and_the_stream_goes_on() {
    let peer = SsePeer::new(|tool, params, _| match tool {
        "get_task" if params["arguments"]["task_id"] == "nav-7f3a2b" => Sse::Huge(10 << 20),
        _ => running(),
    })
    .await;
    let (outcome, row) = run(&peer, StartPolicy::AtMostOnce).await;
    assert_eq!(code(&outcome), "RESULT_TOO_LARGE");
    assert_eq!(row.polls, 1, "it stays too large");
    assert_eq!(peer.count("GET"), 1);

    // Far over the cap it is not even read to its end, and the task has its outcome all the same.
    let peer = SsePeer::new(|tool, _, _| match tool {
        "get_task" => Sse::Huge(100 << 20),
        _ => running(),
    })
    .await;
    let (outcome, _) = run(&peer, StartPolicy::AtMostOnce).await;
    assert_eq!(code(&outcome), "RESULT_TOO_LARGE");
}

/// A host that has no token at the moment.
struct Without;

impl TokenSource for Without {
    fn token<'a>(&'a self, _: &'a Registration) -> BoxFuture<'a, Result<Option<Token>, DialError>> {
        Box::pin(std::future::ready(Err(DialError::new("no token today"))))
    }
}

#[tokio::test]
async fn a_host_without_a_token_gets_no_connection() {
    let peer = SsePeer::new(|_, _, _| running()).await;
    let dialer = HttpDialer::builder().tokens(std::sync::Arc::new(Without));
    let durable = durable_with(&peer.url, dialer.build().unwrap(), PATIENCE).await;

    let row = in_vain(&durable).await;

    assert_eq!(row.trouble.last.as_deref(), Some("no token today"));
    assert_eq!(peer.count("GET"), 0);
    durable.close().await;
}
