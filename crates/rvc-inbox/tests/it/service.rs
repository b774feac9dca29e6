use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use rvc_inbox::{Accepted, EventService, Handler, Kind, NotNow, Rejection};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::sender::{NOW, builder, event, headers, post};

/// A handler that does as it is told and notes what it heard.
#[derive(Default)]
struct Notes {
    heard: Mutex<Vec<String>>,
    plan: Plan,
    started: Notify,
    go_on: Notify,
}

#[derive(Default)]
enum Plan {
    #[default]
    Take,
    /// Refuses so many, then takes.
    Refuse(AtomicUsize),
    /// Waits until it is told to go on.
    Wait,
    Panic,
}

impl Notes {
    fn of(plan: Plan) -> Arc<Self> {
        Arc::new(Self {
            plan,
            ..Self::default()
        })
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn note(&self, what: String) {
        self.heard.lock().unwrap().push(what);
    }
}

struct Notary(Arc<Notes>);

impl Handler for Notary {
    async fn handle(&self, accepted: Accepted) -> Result<(), NotNow> {
        self.0.started.notify_one();
        match &self.0.plan {
            Plan::Take => {}
            Plan::Refuse(left) => {
                let refuse = |left: usize| left.checked_sub(1);
                if left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse)
                    .is_ok()
                {
                    return Err(NotNow::new("disk is full"));
                }
            }
            Plan::Wait => self.0.go_on.notified().await,
            Plan::Panic => panic!("a handler's own fault"),
        }
        self.0.note(format!("new {}", accepted.event.seq));
        Ok(())
    }

    fn duplicate(&self, accepted: &Accepted) {
        assert_eq!(accepted.kind, Kind::Duplicate);
        self.0.note(format!("duplicate {}", accepted.event.seq));
    }

    fn rejected(&self, rejection: &Rejection) {
        self.0.note(rejection.verdict().to_owned());
    }
}

fn service(notes: &Arc<Notes>) -> EventService<Notary> {
    EventService::builder(builder().build().unwrap(), Notary(Arc::clone(notes)))
        .clock(|| NOW)
        .build()
}

fn request<B>(headers: HeaderMap, body: B) -> Request<B> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/api/agent/events?robot=7".parse().unwrap();
    *request.headers_mut() = headers;
    request
}

fn good(seq: u64) -> Request<Full<Bytes>> {
    let (headers, body) = post(&event("nav-7f3a2b", 0, seq), NOW);
    request(headers, Full::from(body))
}

async fn read(response: Response<Full<Bytes>>) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// A body that counts what is read of it, and may go on for ever.
struct Stream {
    chunk: Bytes,
    left: usize,
    announced: Option<u64>,
    read: Arc<AtomicUsize>,
    then: Then,
}

enum Then {
    End,
    Hang,
    Break,
}

impl Stream {
    fn of(chunk_bytes: usize, chunks: usize, then: Then) -> Self {
        Self {
            chunk: vec![b'x'; chunk_bytes].into(),
            left: chunks,
            announced: None,
            read: Arc::default(),
            then,
        }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            self.read.fetch_add(self.chunk.len(), Ordering::SeqCst);
            return Poll::Ready(Some(Ok(Frame::data(self.chunk.clone()))));
        }
        match self.then {
            Then::End => Poll::Ready(None),
            Then::Hang => Poll::Pending,
            Then::Break => Poll::Ready(Some(Err("connection reset".to_owned()))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.announced
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// A body in pieces, the last one first.
struct Chunks(Vec<Bytes>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        Poll::Ready(self.0.pop().map(|chunk| Ok(Frame::data(chunk))))
    }
}

#[tokio::test]
async fn an_event_is_acknowledged_after_the_handler_has_it() {
    let notes = Notes::of(Plan::Wait);
    let service = service(&notes);
    let request = service.respond(good(1));
    tokio::pin!(request);
    tokio::select! {
        biased;
        _ = &mut request => panic!("acknowledged before the handler had it"),
        () = notes.started.notified() => {}
    }
    assert!(notes.heard().is_empty());

    notes.go_on.notify_one();
    let response = request.await;

    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(read(response).await, (200, json!({"status": "accepted"})));
    assert_eq!(notes.heard(), ["new 1"]);
}

#[tokio::test]
async fn an_event_that_comes_again_is_acknowledged_and_not_handled() {
    let notes = Notes::of(Plan::Take);
    let service = service(&notes);
    service.respond(good(1)).await;

    let again = service.respond(good(1)).await;

    assert_eq!(read(again).await, (200, json!({"status": "duplicate"})));
    assert_eq!(notes.heard(), ["new 1", "duplicate 1"]);
}

#[tokio::test]
async fn two_posts_of_one_event_at_once_are_handled_once() {
    let notes = Notes::of(Plan::Wait);
    let service = service(&notes);
    let (first, second, ()) =
        tokio::join!(service.respond(good(1)), service.respond(good(1)), async {
            notes.started.notified().await;
            tokio::task::yield_now().await;
            notes.go_on.notify_one();
        },);
    assert_eq!(
        (first.status(), second.status()),
        (200.try_into().unwrap(), 200.try_into().unwrap())
    );
    assert_eq!(notes.heard(), ["new 1", "duplicate 1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_posts_of_many_events_at_once_are_handled_once_each() {
    let notes = Notes::of(Plan::Refuse(AtomicUsize::new(20)));
    let service = service(&notes);
    let posts: Vec<_> = (0..200)
        .map(|number| {
            let service = service.clone();
            tokio::spawn(async move {
                let request = good(number % 50 + 1);
                service.respond(request).await.status().as_u16()
            })
        })
        .collect();
    let mut statuses = Vec::new();
    for post in posts {
        statuses.push(post.await.unwrap());
    }
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert_eq!((refused, statuses.len()), (20, 200));
    let mut handled = notes.heard();
    handled.retain(|note| note.starts_with("new"));
    handled.sort_unstable();
    let times = handled.len();
    handled.dedup();
    assert_eq!(handled.len(), times, "an event was handled twice");
}

#[tokio::test]
async fn a_second_post_is_handled_when_the_first_was_not_taken() {
    let notes = Notes::of(Plan::Refuse(AtomicUsize::new(1)));
    let service = service(&notes);
    let (first, second) = tokio::join!(service.respond(good(1)), service.respond(good(1)));
    assert_eq!(
        read(first).await,
        (
            503,
            json!({"error": "not_now", "reason": "event cannot be taken now: disk is full"})
        )
    );
    assert_eq!(read(second).await, (200, json!({"status": "accepted"})));
    assert_eq!(notes.heard(), ["new 1"]);
}

#[tokio::test]
async fn an_event_is_handled_to_its_end_when_the_sender_hangs_up() {
    let notes = Notes::of(Plan::Wait);
    let service = service(&notes);
    {
        let request = service.respond(good(1));
        tokio::pin!(request);
        tokio::select! {
            biased;
            _ = &mut request => panic!("answered before the handler went on"),
            () = notes.started.notified() => {}
        }
        // The sender's attempt times out here, and the request is dropped.
    }
    notes.go_on.notify_one();
    service.idle().await;
    assert_eq!(notes.heard(), ["new 1"]);

    let again = service.respond(good(1)).await;
    assert_eq!(read(again).await.1, json!({"status": "duplicate"}));
}

#[tokio::test]
async fn a_handler_that_panics_costs_one_answer_and_nothing_else() {
    let notes = Notes::of(Plan::Panic);
    let service = service(&notes);
    for _ in 0..2 {
        let (status, body) = read(service.respond(good(1)).await).await;
        assert_eq!((status, &body["error"]), (500, &json!("internal")));
    }
    assert!(notes.heard().is_empty());
}

#[tokio::test]
async fn another_path_and_another_method_say_what_is_right() {
    let notes = Notes::of(Plan::Take);
    let service = service(&notes);

    let mut elsewhere = good(1);
    *elsewhere.uri_mut() = "/api/agent/events/".parse().unwrap();
    let (status, body) = read(service.respond(elsewhere).await).await;
    assert_eq!(status, 404);
    assert_eq!(body["reason"], "events are received at /api/agent/events");

    let mut get = good(1);
    *get.method_mut() = Method::GET;
    let response = service.respond(get).await;
    assert_eq!(response.headers()["allow"], "POST");
    assert_eq!(read(response).await.0, 405);
    assert!(notes.heard().is_empty());
}

#[tokio::test]
async fn a_refused_request_says_why() {
    let notes = Notes::of(Plan::Take);
    let service = service(&notes);
    let (headers, body) = post(&event("nav-7f3a2b", 0, 1), NOW - 301);
    let answer = service.respond(request(headers, Full::from(body))).await;
    assert_eq!(
        read(answer).await,
        (
            401,
            json!({"error": "stale", "reason": "timestamp is 301 s behind the receiver's clock"})
        )
    );
    assert_eq!(notes.heard(), ["stale"]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_announced_too_large_is_refused_unread() {
    let notes = Notes::of(Plan::Take);
    let service = service(&notes);
    let mut body = Stream::of(1, 0, Then::Hang);
    body.announced = Some(10 << 30);
    let (status, answer) = read(service.respond(request(HeaderMap::new(), body)).await).await;
    assert_eq!((status, &answer["error"]), (413, &json!("too_large")));
}

#[tokio::test(start_paused = true)]
async fn an_endless_chunked_body_is_refused_at_the_limit_and_cut_off() {
    let notes = Notes::of(Plan::Take);
    let service = service(&notes);
    let body = Stream::of(64 << 10, usize::MAX, Then::End);
    let bytes_read = Arc::clone(&body.read);
    let headers = headers("navigation", "s3cret", NOW, b"");

    let (status, _) = read(service.respond(request(headers, body)).await).await;

    assert_eq!(status, 413);
    assert!(bytes_read.load(Ordering::SeqCst) < 2 << 20);
    // What is read on, so that the answer gets through, ends too.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(bytes_read.load(Ordering::SeqCst) < 20 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_refused_after_its_time() {
    let notes = Notes::of(Plan::Take);
    let service = service(&notes);
    let headers = headers("navigation", "s3cret", NOW, b"");
    let request = request(headers, Stream::of(10, 3, Then::Hang));
    let started = tokio::time::Instant::now();

    let (status, answer) = read(service.respond(request).await).await;

    assert_eq!((status, &answer["error"]), (408, &json!("too_slow")));
    assert_eq!(started.elapsed(), Duration::from_secs(10));
    assert_eq!(notes.heard(), ["too_slow"]);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_refused() {
    let notes = Notes::of(Plan::Take);
    let service = service(&notes);
    let headers = headers("navigation", "s3cret", NOW, b"");
    let request = request(headers, Stream::of(10, 3, Then::Break));
    let (status, answer) = read(service.respond(request).await).await;
    assert_eq!(
        (status, answer),
        (
            400,
            json!({"error": "cut_short", "reason": "body was cut short: connection reset"})
        )
    );
}

#[tokio::test(start_paused = true)]
async fn headers_that_cannot_verify_are_refused_before_the_body_is_read() {
    let notes = Notes::of(Plan::Take);
    let service = service(&notes);
    for (headers, verdict) in [
        (HeaderMap::new(), "missing_header"),
        (headers("lidar", "s3cret", NOW, b""), "unknown_server"),
        (headers("navigation", "s3cret", NOW - 301, b""), "stale"),
    ] {
        let started = tokio::time::Instant::now();
        let hanging = Stream::of(0, 0, Then::Hang);
        let (status, answer) = read(service.respond(request(headers, hanging)).await).await;
        assert_eq!((status, &answer["error"]), (401, &json!(verdict)));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}

#[tokio::test]
async fn an_event_in_many_chunks_is_verified_over_its_whole_body() {
    let notes = Notes::of(Plan::Take);
    let service = service(&notes);
    let (headers, body) = post(&event("nav-7f3a2b", 0, 1), NOW);
    let mut chunks = body
        .chunks(7)
        .map(Bytes::copy_from_slice)
        .collect::<Vec<_>>();
    chunks.reverse();
    let (status, _) = read(service.respond(request(headers, Chunks(chunks))).await).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_closure_is_a_handler() {
    let service = EventService::builder(
        builder().build().unwrap(),
        |accepted: Accepted| async move {
            if accepted.event.seq.get() == 2 {
                return Err(NotNow::new("two is too many"));
            }
            Ok(())
        },
    )
    .clock(|| NOW)
    .path("/events")
    .build();
    for (seq, status) in [(1, 200), (2, 503)] {
        let mut request = good(seq);
        *request.uri_mut() = "/events".parse().unwrap();
        assert_eq!(service.respond(request).await.status(), status);
    }
}

#[tokio::test]
async fn a_hung_handler_holds_up_no_other_event() {
    let service = EventService::builder(
        builder().build().unwrap(),
        |accepted: Accepted| async move {
            if accepted.event.seq.get() == 1 {
                pending::<()>().await;
            }
            Ok(())
        },
    )
    .clock(|| NOW)
    .build();
    let hung = tokio::spawn({
        let service = service.clone();
        async move { service.respond(good(1)).await }
    });
    assert_eq!(service.respond(good(2)).await.status(), 200);
    assert!(!hung.is_finished());
    hung.abort();
}
