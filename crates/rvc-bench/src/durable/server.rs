use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::future::BoxFuture;
use rvc_durable::Registration;
use rvc_durable::remote::{BoxTransport, DialError, Dialer, Token};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{Mutex as AsyncMutex, Notify};

/// A server in memory that answers every poll after a moment with `working`, and the way to it.
#[derive(Clone)]
pub(crate) struct Server {
    thinking: Duration,
    seen: Arc<Mutex<Seen>>,
    polled: Arc<Notify>,
}

#[derive(Default)]
struct Seen {
    first_poll: Option<Instant>,
    polls: u32,
    in_flight: u32,
    most_in_flight: u32,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::thinking(THINKING)
    }

    /// One that answers polls after `thinking`.
    pub(crate) fn thinking(thinking: Duration) -> Self {
        Self {
            thinking,
            seen: Arc::default(),
            polled: Arc::default(),
        }
    }

    fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn polls(&self) -> u32 {
        self.seen(|seen| seen.polls)
    }

    /// Waits for another poll.
    pub(crate) async fn polled(&self) {
        self.polled.notified().await;
    }

    /// # Panics
    ///
    /// When there was none.
    pub(crate) fn first_poll(&self) -> Instant {
        self.seen(|seen| seen.first_poll)
            .expect("only asked after a poll")
    }

    pub(crate) fn most_in_flight(&self) -> u32 {
        self.seen(|seen| seen.most_in_flight)
    }

    async fn serve(self, stream: DuplexStream) -> anyhow::Result<()> {
        let (read, write) = tokio::io::split(stream);
        let write = Arc::new(AsyncMutex::new(write));
        let mut lines = BufReader::new(read).lines();
        while let Some(line) = lines.next_line().await? {
            let request: Value = serde_json::from_str(&line)?;
            let Some(id) = request.get("id") else {
                continue;
            };
            let is_poll = request["method"] == "tasks/get";
            let result = match request["method"].as_str() {
                Some("server/discover") => json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {
                        "tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}},
                    },
                    "ttlMs": 0, "cacheScope": "private",
                }),
                _ if is_poll => self.working(&request)?,
                _ => json!({"resultType": "complete"}),
            };
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
            let (server, write) = (self.clone(), write.clone());
            tokio::spawn(async move {
                if is_poll {
                    // So that what is asked at once is seen at once.
                    tokio::time::sleep(server.thinking).await;
                }
                let mut write = write.lock().await;
                // Whoever asked may be gone.
                let _ = write.write_all(format!("{answer}\n").as_bytes()).await;
                if is_poll {
                    server.seen(|seen| seen.in_flight -= 1);
                    server.polled.notify_one();
                }
            });
        }
        Ok(())
    }

    fn working(&self, request: &Value) -> anyhow::Result<Value> {
        let task = request["params"]["taskId"].as_str().context("no task")?;
        self.seen(|seen| {
            seen.first_poll.get_or_insert_with(Instant::now);
            seen.polls += 1;
            seen.in_flight += 1;
            seen.most_in_flight = seen.most_in_flight.max(seen.in_flight);
        });
        Ok(json!({
            "resultType": "complete", "taskId": task, "status": "working",
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "statusMessage": "driving", "ttlMs": 86_400_000, "pollIntervalMs": 60_000,
        }))
    }
}

impl Dialer for Server {
    fn dial<'a>(
        &'a self,
        _: &'a Registration,
        _: Option<Token>,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(self.clone().serve(theirs));
        Box::pin(std::future::ready(Ok(BoxTransport::lines(ours))))
    }
}

const THINKING: Duration = Duration::from_millis(5);
