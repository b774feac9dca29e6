//! The receiver on real sockets. Whatever it is sent, it answers the next request.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderMap;
use rvc_inbox::{Accepted, EventService, NotNow, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::sender::{NOW, builder, event, headers, post};

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

async fn start<F, Handled>(handler: F) -> Running
where
    F: Fn(Accepted) -> Handled + Send + Sync + 'static,
    Handled: Future<Output = Result<(), NotNow>> + Send + 'static,
{
    let service = EventService::builder(builder().build().unwrap(), handler)
        .clock(|| NOW)
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(serve(listener, service, async {
        let _ = stopped.await;
    }));
    Running {
        address,
        stop,
        server,
    }
}

async fn take(_: Accepted) -> Result<(), NotNow> {
    Ok(())
}

/// The head of a POST with these headers and further lines.
fn head(headers: &HeaderMap, more: &str) -> Vec<u8> {
    let mut head = b"POST /api/agent/events HTTP/1.1\r\nhost: brain\r\n".to_vec();
    for (name, value) in headers {
        head.extend_from_slice(format!("{name}: ").as_bytes());
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(more.as_bytes());
    head.extend_from_slice(b"\r\n");
    head
}

fn whole(seq: u64) -> Vec<u8> {
    let (headers, body) = post(&event("nav-7f3a2b", 0, seq), NOW);
    let mut request = head(&headers, &format!("content-length: {}\r\n", body.len()));
    request.extend_from_slice(&body);
    request
}

/// Sends bytes on a new connection and answers the first line that comes back.
async fn first_line(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses early may close before all is written.
    let _ = stream.write_all(request).await;
    status_line(&mut stream).await
}

async fn status_line(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.windows(2).any(|pair| pair == b"\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(bytes) => answer.extend_from_slice(&buffer[..bytes]),
        }
    }
    let text = String::from_utf8(answer).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn bad_requests_are_answered_and_never_end_the_receiver() {
    let running = start(take).await;
    let none = HeaderMap::new();
    let (good, body) = post(&event("nav-7f3a2b", 0, 1), NOW);
    let chunked = |headers: &HeaderMap, chunk: &[u8]| {
        let mut request = head(headers, "transfer-encoding: chunked\r\n");
        request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n0\r\n\r\n");
        request
    };
    let with_length = |headers: &HeaderMap, body: &[u8]| {
        let mut request = head(headers, &format!("content-length: {}\r\n", body.len()));
        request.extend_from_slice(body);
        request
    };
    let large = vec![b'x'; 3 << 20];
    let signed_large = headers("navigation", "s3cret", NOW, &large);
    let two_servers = [
        b"POST /api/agent/events HTTP/1.1\r\nX-RVC-Server: navigation\r\n".as_slice(),
        &head(&good, "content-length: 0\r\n")[b"POST /api/agent/events HTTP/1.1\r\n".len()..],
    ]
    .concat();
    for (name, request, status) in [
        ("not HTTP", b"\x16\x03\x01\x02\x00\r\n\r\n".to_vec(), "400"),
        ("no headers", head(&none, "content-length: 0\r\n"), "401"),
        ("two server headers", two_servers, "401"),
        (
            "a length that is no number",
            head(&good, "content-length: ten\r\n"),
            "400",
        ),
        (
            "two lengths",
            head(&good, "content-length: 1\r\ncontent-length: 2\r\n"),
            "400",
        ),
        (
            "a chunk that is no number",
            [
                head(&good, "transfer-encoding: chunked\r\n"),
                b"zz\r\n".to_vec(),
            ]
            .concat(),
            "400",
        ),
        ("too large", with_length(&signed_large, &large), "413"),
        ("too large in chunks", chunked(&signed_large, &large), "413"),
        (
            "an announced gigabyte",
            head(&signed_large, "content-length: 1073741824\r\n"),
            "413",
        ),
        (
            "a head without end",
            [b"POST / HTTP/1.1\r\nx: ".as_slice(), &large].concat(),
            "431",
        ),
        (
            "another path",
            b"GET / HTTP/1.1\r\nhost: brain\r\n\r\n".to_vec(),
            "404",
        ),
        (
            "signed rubbish",
            with_length(&headers("navigation", "s3cret", NOW, b"{}"), b"{}"),
            "400",
        ),
        ("good in one chunk", chunked(&good, &body), "200"),
    ] {
        let line = first_line(running.address, &request).await;
        assert!(
            line.starts_with(&format!("HTTP/1.1 {status}")),
            "{name}: {line:?}"
        );
    }
    assert!(
        first_line(running.address, &whole(2))
            .await
            .starts_with("HTTP/1.1 200")
    );
}

#[tokio::test]
async fn a_refusal_keeps_the_connection_for_the_next_event() {
    let running = start(take).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let (stale, body) = post(&event("nav-7f3a2b", 0, 1), NOW - 900);
    let mut request = head(&stale, &format!("content-length: {}\r\n", body.len()));
    request.extend_from_slice(&body);
    for (request, status) in [(request, "401"), (whole(1), "200"), (whole(2), "200")] {
        stream.write_all(&request).await.unwrap();
        let line = status_line(&mut stream).await;
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{line:?}");
    }
}

#[tokio::test]
async fn peers_that_hang_up_at_any_point_change_nothing() {
    let running = start(take).await;
    let request = whole(1);
    for cut in [0, 1, 20, request.len() / 2, request.len() - 1] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(&request[..cut]).await.unwrap();
    }
    assert!(
        first_line(running.address, &request)
            .await
            .starts_with("HTTP/1.1 200")
    );
}

#[tokio::test]
async fn shutdown_lets_an_event_under_way_finish_and_closes_idle_connections() {
    let started = Arc::new(Notify::new());
    let go_on = Arc::new(Notify::new());
    let running = start({
        let (started, go_on) = (Arc::clone(&started), Arc::clone(&go_on));
        move |_| {
            let (started, go_on) = (Arc::clone(&started), Arc::clone(&go_on));
            async move {
                started.notify_one();
                go_on.notified().await;
                Ok(())
            }
        }
    })
    .await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    let mut busy = TcpStream::connect(running.address).await.unwrap();
    busy.write_all(&whole(1)).await.unwrap();
    started.notified().await;

    running.stop.send(()).unwrap();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
    go_on.notify_one();

    assert!(status_line(&mut busy).await.starts_with("HTTP/1.1 200"));
    running.server.await.unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}
