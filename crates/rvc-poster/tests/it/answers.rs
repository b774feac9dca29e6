use bytes::Bytes;
use rvc_test::{Reply, ScriptedEndpoint};
use tokio::time::Instant;

use crate::support::{assert_times, builder, poster, progress, seconds, seqs, times};

/// Posts two events to an endpoint that replies to the first attempt in a way of its own; returns
/// when which requests came, and the endpoint.
async fn first_reply(reply: Reply) -> (Vec<(u64, f64)>, ScriptedEndpoint) {
    let start = Instant::now();
    let endpoint = ScriptedEndpoint::answering([reply]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));
    let report = poster.close(seconds(700.0)).await;
    assert!(report.is_complete());
    let seqs = seqs(&endpoint, "nav-1");
    let requests = seqs.into_iter().zip(times(&endpoint, start)).collect();
    (requests, endpoint)
}

#[track_caller]
fn assert_requests(requests: &[(u64, f64)], expected: &[(u64, f64)], what: &str) {
    let (seqs, times): (Vec<_>, Vec<_>) = requests.iter().copied().unzip();
    let (expected_seqs, expected_times): (Vec<_>, Vec<_>) = expected.iter().copied().unzip();
    assert_eq!(seqs, expected_seqs, "{what}");
    assert_times(&times, &expected_times);
}

#[tokio::test(start_paused = true)]
async fn every_answer_outside_2xx_is_retried_after_half_a_second() {
    for status in [301, 302, 304, 307, 400, 401, 404, 413, 429, 500, 503, 999] {
        let reply = Reply::status(status).header("location", "http://elsewhere/");
        let (requests, endpoint) = first_reply(reply).await;
        assert_requests(
            &requests,
            &[(1, 0.0), (1, 0.5), (2, 0.5)],
            &status.to_string(),
        );
        let [first, again, _] = &endpoint.received()[..] else {
            panic!("three requests came");
        };
        assert_eq!(first.body, again.body);
        assert_eq!(again.target, "/api/agent/events?robot=1");
        assert_eq!(endpoint.connects(), 1, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_2xx_acknowledges() {
    for status in [200, 201, 202, 204, 299] {
        let (requests, _) = first_reply(Reply::status(status)).await;
        assert_requests(&requests, &[(1, 0.0), (2, 0.0)], &status.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected_in_seconds_and_as_a_date() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let later = "Sun, 06 Nov 1994 08:50:07 GMT";
    for (reply, wait_s) in [
        (Reply::status(429).header("retry-after", "20"), 20.0),
        (Reply::status(503).header("Retry-After", "0"), 0.5),
        (
            Reply::status(429)
                .header("date", date)
                .header("retry-after", later),
            30.0,
        ),
        (Reply::status(429).header("retry-after", "soon"), 0.5),
        (Reply::status(429).header("retry-after", "-7"), 0.5),
    ] {
        let what = format!("{reply:?}");
        let (requests, _) = first_reply(reply).await;
        assert_requests(&requests, &[(1, 0.0), (1, wait_s), (2, wait_s)], &what);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_beyond_the_limit_gives_the_event_up_at_the_limit() {
    let reply = Reply::status(429).header("retry-after", "86400");
    let (requests, _) = first_reply(reply).await;
    assert_requests(&requests, &[(1, 0.0), (2, 600.0)], "a day");
}

#[tokio::test(start_paused = true)]
async fn a_broken_answer_is_retried_after_half_a_second_on_a_new_connection() {
    for bytes in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 20",
        "\x16\x03\x01 not http\r\n\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
    ] {
        let reply = Reply::Raw(Bytes::from_static(bytes.as_bytes()));
        let (requests, endpoint) = first_reply(reply).await;
        assert_requests(&requests, &[(1, 0.0), (1, 0.5), (2, 0.5)], bytes);
        assert_eq!(endpoint.connects(), 2, "{bytes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_2xx_whose_body_breaks_off_acknowledges_and_costs_the_connection() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    let (requests, endpoint) = first_reply(Reply::Raw(Bytes::from_static(half.as_bytes()))).await;
    assert_requests(&requests, &[(1, 0.0), (2, 0.0)], "half a body");
    assert_eq!(endpoint.connects(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_endless_header_is_a_failed_attempt() {
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(1 << 20));
    let (requests, _) = first_reply(Reply::Raw(endless.into())).await;
    assert_requests(&requests, &[(1, 0.0), (1, 0.5), (2, 0.5)], "header");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_hangs_costs_the_attempts_ten_seconds() {
    let (requests, endpoint) = first_reply(Reply::Hang).await;
    assert_requests(&requests, &[(1, 0.0), (1, 10.5), (2, 10.5)], "hang");
    assert_eq!(endpoint.connects(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_attempts_timeout_can_be_set() {
    let start = Instant::now();
    let endpoint = ScriptedEndpoint::answering([Reply::Hang]);
    let poster = builder(&endpoint)
        .attempt_timeout(seconds(2.0))
        .build()
        .unwrap();
    poster.post(progress("nav-1", 1));
    poster.close(seconds(60.0)).await;
    assert_times(&times(&endpoint, start), &[0.0, 2.5]);
}

#[tokio::test(start_paused = true)]
async fn a_small_body_keeps_the_connection_and_a_huge_one_costs_it() {
    for (size, connects) in [(100, 1), (64 << 10, 1), (1 << 20, 2)] {
        let (requests, endpoint) = first_reply(Reply::status(200).body(vec![b'x'; size])).await;
        assert_requests(&requests, &[(1, 0.0), (2, 0.0)], &size.to_string());
        assert_eq!(endpoint.connects(), connects, "{size}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_body_costs_the_connection_and_nothing_else() {
    let endless = |status| Reply::Endless {
        status,
        chunk: 1_000,
        every: seconds(0.0),
    };
    let (requests, endpoint) = first_reply(endless(200)).await;
    assert_requests(&requests, &[(1, 0.0), (2, 0.0)], "200");
    assert_eq!(endpoint.connects(), 2);

    let (requests, _) = first_reply(endless(500)).await;
    assert_requests(&requests, &[(1, 0.0), (1, 0.5), (2, 0.5)], "500");
}

#[tokio::test(start_paused = true)]
async fn a_dripping_body_holds_the_next_event_for_a_second_at_most() {
    let dripping = |status| Reply::Endless {
        status,
        chunk: 1,
        every: seconds(0.3),
    };
    let (requests, endpoint) = first_reply(dripping(200)).await;
    assert_requests(&requests, &[(1, 0.0), (2, 1.0)], "200");
    assert_eq!(endpoint.connects(), 2);

    let (requests, _) = first_reply(dripping(500)).await;
    assert_requests(&requests, &[(1, 0.0), (1, 1.5), (2, 1.5)], "500");
}
