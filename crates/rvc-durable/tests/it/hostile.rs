//! Servers that lie, over real HTTP. On real time, with limits that matter only where a test waits
//! for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rvc_durable::remote::HttpDialer;
use rvc_durable::{Durable, InputHandling, Outcome, Phase, StartPolicy, TransportKind};
use serde_json::{Value, json};
use tokio_rustls::{TlsAcceptor, rustls};

use crate::http_peer::{Http, HttpPeer};
use crate::live::{PATIENCE, durable_over, in_vain};
use crate::world::{code, id, submission};

async fn durable(url: &str) -> Durable {
    durable_with(url, PATIENCE).await
}

async fn durable_with(url: &str, patience: Duration) -> Durable {
    let dialer = HttpDialer::builder().max_result_bytes(1 << 20);
    over_http(url, dialer.build().unwrap(), patience).await
}

async fn over_http(url: &str, dialer: HttpDialer, patience: Duration) -> Durable {
    durable_over(TransportKind::StreamableHttp, url, dialer, patience).await
}

/// Where the answer does not come.
const HURRY: Duration = Duration::from_millis(500);

async fn run(url: &str, policy: StartPolicy) -> Outcome {
    run_with(url, policy, PATIENCE).await
}

async fn run_with(url: &str, policy: StartPolicy, patience: Duration) -> Outcome {
    let durable = durable_with(url, patience).await;
    durable
        .submit(submission("a").policy(policy))
        .await
        .unwrap();
    let outcome = tokio::time::timeout(PATIENCE * 3, durable.outcome(&id("a")))
        .await
        .unwrap()
        .unwrap();
    durable.close().await;
    outcome
}

fn handle() -> Http {
    Http::Json(state("working", &json!({"resultType": "task"})))
}

fn state(status: &str, with: &Value) -> Value {
    let mut state = json!({"resultType": "complete", "taskId": "t-1", "status": status,
        "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": null, "pollIntervalMs": 5});
    for (key, value) in with.as_object().unwrap() {
        state[key] = value.clone();
    }
    state
}

fn acknowledged() -> Http {
    Http::Json(json!({"resultType": "complete"}))
}

fn done(text: &str) -> Value {
    let result = json!({"content": [{"type": "text", "text": text}]});
    state("completed", &json!({"result": result}))
}

#[tokio::test]
async fn a_task_is_followed_over_http_with_json_and_with_sse() {
    for sse in [false, true] {
        let peer = HttpPeer::new(move |method, _, nth| match (method, nth) {
            ("tools/call", _) => handle(),
            ("tasks/get", 1) => Http::Json(state("working", &json!({}))),
            ("tasks/get", _) if sse => Http::Sse(vec![done("there")]),
            _ => Http::Json(done("there")),
        })
        .await;

        let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;

        assert_eq!(outcome.result.unwrap().text, "there");
        assert_eq!(peer.count("tools/call"), 1);
    }
}

#[tokio::test]
async fn a_redirect_after_the_server_executed_starts_nothing_twice() {
    let elsewhere = HttpPeer::new(|_, _, _| Http::Json(json!({"content": []}))).await;
    for status in [
        "307 Temporary Redirect",
        "308 Permanent Redirect",
        "302 Found",
    ] {
        let to = elsewhere.url.clone();
        let peer =
            HttpPeer::new(move |_, _, _| Http::Status(status, vec![("location", to.clone())]))
                .await;

        let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;

        assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN", "{status}");
        assert_eq!(peer.count("tools/call"), 1, "{status}");
    }
    assert_eq!(elsewhere.count("tools/call"), 0, "no redirect is followed");
}

#[tokio::test]
async fn a_redirected_poll_is_not_followed_and_is_asked_again_where_it_belongs() {
    let elsewhere = HttpPeer::new(|_, _, _| Http::Json(done("foreign"))).await;
    for status in ["307 Temporary Redirect", "302 Found"] {
        let to = elsewhere.url.clone();
        let peer = HttpPeer::new(move |method, _, nth| match (method, nth) {
            ("tools/call", _) => handle(),
            (_, 1) => Http::Status(status, vec![("location", to.clone())]),
            _ => Http::Json(done("there")),
        })
        .await;

        let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;

        assert_eq!(outcome.result.unwrap().text, "there", "{status}");
        assert_eq!(peer.count("tasks/get"), 2, "{status}");
    }
    assert_eq!(elsewhere.count("tasks/get"), 0, "no redirect is followed");
}

#[tokio::test]
async fn a_redirected_cancel_is_not_followed_and_is_no_acknowledgement() {
    let elsewhere = HttpPeer::new(|_, _, _| acknowledged()).await;
    for status in ["308 Permanent Redirect", "303 See Other"] {
        let to = elsewhere.url.clone();
        let peer = HttpPeer::new(move |method, _, nth| match (method, nth) {
            ("tools/call", _) => handle(),
            ("tasks/cancel", 1) => Http::Status(status, vec![("location", to.clone())]),
            ("tasks/cancel", _) => acknowledged(),
            _ => Http::Json(state("working", &json!({}))),
        })
        .await;
        let durable = durable(&peer.url).await;
        durable.submit(submission("a")).await.unwrap();
        while peer.count("tasks/get") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        durable.cancel_action(&id("a")).await.unwrap();

        let acknowledged = async {
            loop {
                let row = durable.action(&id("a")).await.unwrap().unwrap();
                if row.clean_up.acknowledged_at.is_some() {
                    return row.clean_up.asked;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let asked = tokio::time::timeout(PATIENCE, acknowledged).await.unwrap();

        assert_eq!((asked, peer.count("tasks/cancel")), (2, 2), "{status}");
        durable.close().await;
    }
    for method in ["tasks/cancel", "other"] {
        assert_eq!(elsewhere.count(method), 0, "no redirect is followed");
    }
}

#[tokio::test]
async fn a_start_is_not_posted_again_after_a_404_or_a_5xx() {
    for status in [
        "404 Not Found",
        "500 Internal Server Error",
        "503 Service Unavailable",
        "429 Too Many Requests",
    ] {
        let peer = HttpPeer::new(move |_, _, _| Http::Status(status, vec![])).await;

        let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;

        assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN", "{status}");
        assert_eq!(peer.count("tools/call"), 1, "{status}");
    }
}

#[tokio::test]
async fn credentials_that_are_refused_fail_the_start_and_delay_a_poll() {
    let challenge = || {
        Http::Status(
            "401 Unauthorized",
            vec![("www-authenticate", "Bearer".into())],
        )
    };
    let peer = HttpPeer::new(move |_, _, _| challenge()).await;
    let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;
    assert_eq!((outcome.phase, code(&outcome)), (Phase::Failed, "401"));
    assert_eq!(peer.count("tools/call"), 1);

    let peer = HttpPeer::new(move |method, _, nth| match (method, nth) {
        ("tools/call", _) => handle(),
        ("tasks/get", 1..=2) => challenge(),
        _ => Http::Json(done("there")),
    })
    .await;
    let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;
    assert_eq!(outcome.phase, Phase::Completed);
}

#[tokio::test]
async fn a_denial_without_a_challenge_is_a_denial_and_no_lost_answer() {
    for (status, expected) in [("401 Unauthorized", "401"), ("403 Forbidden", "403")] {
        let peer = HttpPeer::new(move |_, _, _| Http::Status(status, vec![])).await;

        let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;

        assert_eq!((outcome.phase, code(&outcome)), (Phase::Failed, expected));
        assert_eq!(peer.count("tools/call"), 1);
    }
}

#[test]
fn a_text_without_a_certificate_is_no_root_certificate() {
    for text in [
        "",
        "no PEM",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    ] {
        let refused = HttpDialer::builder().root_certificates(text.as_bytes());
        assert!(refused.is_err(), "{text}");
    }
}

#[tokio::test]
async fn a_session_that_expired_is_not_opened_anew_to_post_the_start_again() {
    let peer = HttpPeer::legacy(|_, _, _| Http::Status("404 Not Found", vec![])).await;

    let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;

    assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN");
    assert_eq!(peer.count("tools/call"), 1);
    assert_eq!(peer.count("initialize"), 1);
}

#[tokio::test]
async fn an_answer_that_meets_an_expired_session_goes_out_over_another_one() {
    let requests = json!({"inputRequests": {"k": {"method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}});
    let asking = state("input_required", &requests);
    let sessions = Arc::new(AtomicUsize::new(0));
    let (seen, mut taken) = (sessions.clone(), false);
    let peer = HttpPeer::legacy(move |method, _, _| match method {
        "tools/call" => handle(),
        "tasks/get" if taken => Http::Json(done("there")),
        "tasks/get" => Http::Json(asking.clone()),
        // Polls are answered by a server that still knows the session.
        "tasks/update" if seen.load(Ordering::Relaxed) < 2 => Http::Status("404 Not Found", vec![]),
        _ => {
            taken |= method == "tasks/update";
            Http::Json(json!({"resultType": "complete"}))
        }
    })
    .await;
    let durable = durable(&peer.url).await;
    let counted = peer.clone();
    let surfaced = submission("a").input(InputHandling::Surface);
    durable.submit(surfaced).await.unwrap();
    while durable.action(&id("a")).await.unwrap().unwrap().phase != Phase::InputRequired {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let answers = json!({"k": {"action": "accept", "content": {}}});
    let answers = answers.as_object().cloned().unwrap();
    durable.answer_input(&id("a"), answers).await.unwrap();

    let outcome = async {
        loop {
            sessions.store(counted.count("initialize"), Ordering::Relaxed);
            let row = durable.action(&id("a")).await.unwrap().unwrap();
            if let Some(outcome) = row.outcome {
                return outcome;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, outcome).await.unwrap();

    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(peer.count("initialize"), 2);
    durable.close().await;
}

#[tokio::test]
async fn a_legacy_server_gets_its_handshake_and_its_plain_results_are_taken() {
    let result = json!({"content": [{"type": "text", "text": "there"}]});
    let peer = HttpPeer::legacy(move |_, _, _| Http::Json(result.clone())).await;

    let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;

    assert_eq!(outcome.result.unwrap().text, "there");
}

#[tokio::test]
async fn a_cut_connection_is_an_unknown_start_and_is_repeated_where_that_is_allowed() {
    let script = |_: &str, _: &Value, nth: usize| match nth {
        1 => Http::HangUp,
        _ => Http::Json(json!({"content": [{"type": "text", "text": "there"}]})),
    };
    let peer = HttpPeer::new(script).await;
    let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;
    assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN");
    assert_eq!(peer.count("tools/call"), 1);

    let peer = HttpPeer::new(script).await;
    let outcome = run(&peer.url, StartPolicy::ServerDedup).await;
    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(peer.count("tools/call"), 2);
}

#[tokio::test]
async fn a_refused_connection_sends_nothing_and_is_tried_again() {
    // A port that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let durable = durable(&url).await;

    let row = in_vain(&durable).await;

    assert_eq!((row.phase, row.starts), (Phase::Intent, 0));
    durable.close().await;
}

#[tokio::test]
async fn a_server_that_went_away_before_the_start_got_no_start_and_it_is_tried_again() {
    // The handshake is answered, and then nobody listens any more: proven unsent.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        drop(listener);
        crate::http_peer::answer_discovery_and_close(stream).await;
    });
    let durable = durable(&url).await;

    let row = in_vain(&durable).await;

    assert_eq!((row.phase, row.starts), (Phase::Intent, 0));
    durable.close().await;
}

#[tokio::test]
async fn an_endless_stream_ends_at_the_timeout() {
    let peer = HttpPeer::new(|_, _, _| Http::EndlessSse).await;
    let begun = Instant::now();

    let outcome = run_with(&peer.url, StartPolicy::AtMostOnce, HURRY).await;

    assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn an_endless_stream_at_a_poll_ends_at_the_request_timeout_and_it_is_asked_again() {
    let peer = HttpPeer::new(|method, _, nth| match (method, nth) {
        ("tools/call", _) => handle(),
        ("tasks/get", 1) => Http::EndlessSse,
        _ => Http::Json(done("there")),
    })
    .await;
    let begun = Instant::now();

    let outcome = run_with(&peer.url, StartPolicy::AtMostOnce, HURRY).await;

    assert_eq!(outcome.result.unwrap().text, "there");
    assert_eq!(peer.count("tasks/get"), 2);
    assert!(begun.elapsed() >= HURRY);
}

#[tokio::test]
async fn a_body_that_never_comes_ends_at_the_timeout() {
    for kind in ["application/json", "text/event-stream"] {
        let peer = HttpPeer::new(move |_, _, _| Http::Stalled(kind)).await;
        let begun = Instant::now();
        let outcome = run_with(&peer.url, StartPolicy::AtMostOnce, HURRY).await;
        assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN", "{kind}");
        assert!(begun.elapsed() < Duration::from_secs(20));

        // A poll is asked again, over another connection.
        let peer = HttpPeer::new(move |method, _, nth| match (method, nth) {
            ("tools/call", _) => handle(),
            ("tasks/get", 1) => Http::Stalled(kind),
            _ => Http::Json(done("there")),
        })
        .await;
        let outcome = run_with(&peer.url, StartPolicy::AtMostOnce, HURRY).await;
        assert_eq!(outcome.phase, Phase::Completed, "{kind}");
    }
}

#[tokio::test]
async fn a_result_of_100_mib_is_refused_without_reading_it_all() {
    for huge in [Http::Huge(100 << 20), Http::HugeSse(100 << 20)] {
        let at_a_poll = huge.clone();
        let peer = HttpPeer::new(move |method, _, _| match method {
            "tools/call" => handle(),
            _ => at_a_poll.clone(),
        })
        .await;
        let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;
        assert_eq!(code(&outcome), "RESULT_TOO_LARGE");

        let peer = HttpPeer::new(move |_, _, _| huge.clone()).await;
        let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;
        assert_eq!(code(&outcome), "RESULT_TOO_LARGE");
    }
}

#[tokio::test]
async fn a_state_that_is_too_large_may_be_of_a_task_that_works_and_it_is_cancelled() {
    let peer = HttpPeer::new(|method, _, _| match method {
        "tools/call" => handle(),
        "tasks/get" => Http::Json(state(
            "working",
            &json!({"statusMessage": "x".repeat(8 << 20)}),
        )),
        _ => Http::Json(json!({"resultType": "complete"})),
    })
    .await;
    let durable = durable(&peer.url).await;
    durable.submit(submission("a")).await.unwrap();

    let outcome = durable.outcome(&id("a")).await.unwrap();
    durable.idle().await.unwrap();

    assert_eq!(code(&outcome), "RESULT_TOO_LARGE");
    assert_eq!(peer.count("tasks/cancel"), 1);
    durable.close().await;
}

#[tokio::test]
async fn a_certificate_that_does_not_match_or_is_not_trusted_gets_no_start() {
    let made = rcgen::generate_simple_self_signed(vec!["another.example".to_owned()]).unwrap();
    let matching = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    for (certified, trusted, works) in [
        (&made, true, false),
        (&matching, false, false),
        (&matching, true, true),
    ] {
        let key = rustls_pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key.unwrap())
            .unwrap();
        let script = |_: &str, _: &Value, _| Http::Json(json!({"content": []}));
        let peer = HttpPeer::over(Some(TlsAcceptor::from(Arc::new(server))), false, script).await;
        let mut dialer = HttpDialer::builder();
        if trusted {
            dialer = dialer
                .root_certificates(certified.cert.pem().as_bytes())
                .unwrap();
        }
        let durable = over_http(&peer.url, dialer.build().unwrap(), PATIENCE).await;

        let row = in_vain(&durable).await;

        if works {
            assert_eq!(row.phase, Phase::Completed);
        } else {
            assert_eq!((row.phase, row.starts), (Phase::Intent, 0));
            let last = row.trouble.last.unwrap();
            assert!(last.contains("certificate"), "{last}");
            assert_eq!(peer.count("tools/call"), 0);
        }
        durable.close().await;
    }
}

#[tokio::test]
async fn a_429_with_retry_after_is_respected_when_polling() {
    let peer = HttpPeer::new(|method, _, nth| match (method, nth) {
        ("tools/call", _) => handle(),
        ("tasks/get", 1) => {
            Http::Status("429 Too Many Requests", vec![("retry-after", "1".into())])
        }
        _ => Http::Json(done("there")),
    })
    .await;
    let begun = Instant::now();

    let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;

    assert_eq!(outcome.phase, Phase::Completed);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(peer.count("tasks/get"), 2);
}

#[tokio::test]
async fn a_429_with_retry_after_is_respected_when_starting() {
    let peer = HttpPeer::new(|_, _, nth| match nth {
        1 => Http::Status("429 Too Many Requests", vec![("retry-after", "1".into())]),
        _ => Http::Json(json!({"content": []})),
    })
    .await;
    let begun = Instant::now();

    let outcome = run(&peer.url, StartPolicy::IdempotentTool).await;

    assert_eq!(outcome.phase, Phase::Completed);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(peer.count("tools/call"), 2);
}

#[tokio::test]
async fn another_tasks_id_in_the_answer_gives_no_foreign_result() {
    let peer = HttpPeer::new(|method, _, _| match method {
        "tools/call" => handle(),
        "tasks/get" => {
            let mut foreign = done("foreign");
            foreign["taskId"] = "t-2".into();
            Http::Json(foreign)
        }
        _ => Http::Json(json!({"resultType": "complete"})),
    })
    .await;

    let outcome = run(&peer.url, StartPolicy::AtMostOnce).await;

    assert_eq!(code(&outcome), "REMOTE_PROTOCOL_ERROR");
    assert_eq!(outcome.result, None);
}
