//! A remote server in memory that says what a script says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rvc_durable::Registration;
use rvc_durable::remote::{BoxTransport, DialError, Dialer, Token};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

/// A request that the server got.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) params: Value,
    /// The how manieth of its method, from 1.
    pub(crate) nth: usize,
}

impl Call {
    /// The tool of a `tools/call`.
    pub(crate) fn tool(&self) -> &str {
        self.params["name"].as_str().unwrap_or_default()
    }
}

/// What the server answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Result(Value),
    Error(i32, &'static str),
    /// Nothing, for ever.
    Silence,
    /// The connection ends without an answer.
    HangUp,
    /// An answer after a notification of progress every second, so many times.
    After(u32, Box<Reply>),
}

impl Reply {
    pub(crate) fn text(text: &str) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text}]}))
    }

    /// A task handle.
    pub(crate) fn handle(id: &str) -> Self {
        Self::Result(state(id, "working", &json!({"resultType": "task"})))
    }

    /// A task's state, with whatever belongs to it.
    pub(crate) fn state(id: &str, status: &str, with: &Value) -> Self {
        Self::Result(state(id, status, with))
    }

    pub(crate) fn completed(id: &str, text: &str) -> Self {
        let result = json!({"content": [{"type": "text", "text": text}]});
        Self::state(id, "completed", &json!({"result": result}))
    }

    pub(crate) fn acknowledged() -> Self {
        Self::Result(json!({"resultType": "complete"}))
    }

    pub(crate) fn unknown_task() -> Self {
        Self::Error(-32602, "unknown task")
    }
}

fn state(id: &str, status: &str, with: &Value) -> Value {
    let mut state = json!({
        "resultType": "complete", "taskId": id, "status": status,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        "ttlMs": 600_000, "pollIntervalMs": 1000
    });
    for (key, value) in with.as_object().unwrap() {
        state[key] = value.clone();
    }
    state
}

type Script = Box<dyn FnMut(&Call) -> Reply + Send>;

struct Shared {
    script: Script,
    calls: Vec<Call>,
    counts: HashMap<String, usize>,
    down: bool,
    dials: usize,
    in_flight: usize,
    most_in_flight: usize,
}

/// The server, and at the same time the way to it.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Mutex<Shared>>);

impl Peer {
    pub(crate) fn new(script: impl FnMut(&Call) -> Reply + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            script: Box::new(script),
            calls: Vec::new(),
            counts: HashMap::new(),
            down: false,
            dials: 0,
            in_flight: 0,
            most_in_flight: 0,
        })))
    }

    /// Whether connections are refused.
    pub(crate) fn set_down(&self, down: bool) {
        self.0.lock().unwrap().down = down;
    }

    pub(crate) fn set_script(&self, script: impl FnMut(&Call) -> Reply + Send + 'static) {
        self.0.lock().unwrap().script = Box::new(script);
    }

    /// How often a method was called.
    pub(crate) fn count(&self, method: &str) -> usize {
        let shared = self.0.lock().unwrap();
        shared.counts.get(method).copied().unwrap_or(0)
    }

    /// What a method was called with.
    pub(crate) fn calls(&self, method: &str) -> Vec<Call> {
        let shared = self.0.lock().unwrap();
        let calls = shared.calls.iter();
        calls
            .filter(|call| call.method == method)
            .cloned()
            .collect()
    }

    pub(crate) fn dials(&self) -> usize {
        self.0.lock().unwrap().dials
    }

    /// The most requests that were answered at once.
    pub(crate) fn most_in_flight(&self) -> usize {
        self.0.lock().unwrap().most_in_flight
    }

    fn arrives(&self) {
        let mut shared = self.0.lock().unwrap();
        shared.in_flight += 1;
        shared.most_in_flight = shared.most_in_flight.max(shared.in_flight);
    }

    fn leaves(&self) {
        self.0.lock().unwrap().in_flight -= 1;
    }

    fn answer(&self, method: &str, params: &Value) -> Reply {
        let mut shared = self.0.lock().unwrap();
        let count = shared.counts.entry(method.to_owned()).or_default();
        *count += 1;
        let call = Call {
            method: method.to_owned(),
            params: params.clone(),
            nth: *count,
        };
        shared.calls.push(call.clone());
        (shared.script)(&call)
    }

    async fn serve(self, stream: DuplexStream) {
        let (read, write) = tokio::io::split(stream);
        let write = Arc::new(tokio::sync::Mutex::new(write));
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let request: Value = serde_json::from_str(&line).unwrap();
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let Some(id) = request.get("id").cloned() else {
                let _ = self.answer(&method, &request["params"]);
                continue;
            };
            let mut reply = match method.as_str() {
                "server/discover" => Reply::Result(json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
                    "ttlMs": 0, "cacheScope": "private"
                })),
                _ => self.answer(&method, &request["params"]),
            };
            let token = request["params"]["_meta"]["progressToken"].clone();
            let write = write.clone();
            self.arrives();
            let peer = self.clone();
            if matches!(reply, Reply::HangUp) {
                return;
            }
            tokio::spawn(async move {
                if let Reply::After(times, then) = reply {
                    for progress in 1..=times {
                        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                        let params = json!({"progressToken": token, "progress": progress});
                        let notification = json!({"jsonrpc": "2.0",
                            "method": "notifications/progress", "params": params});
                        let line = format!("{notification}\n");
                        let _ = write.lock().await.write_all(line.as_bytes()).await;
                    }
                    reply = *then;
                }
                let body = match reply {
                    Reply::Result(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                    Reply::Error(code, message) => json!({"jsonrpc": "2.0", "id": id,
                        "error": {"code": code, "message": message}}),
                    Reply::Silence | Reply::HangUp | Reply::After(..) => return,
                };
                let line = format!("{body}\n");
                tokio::task::yield_now().await;
                peer.leaves();
                let _ = write.lock().await.write_all(line.as_bytes()).await;
            });
        }
    }
}

impl Dialer for Peer {
    fn dial<'a>(
        &'a self,
        _: &'a Registration,
        _: Option<Token>,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>> {
        let down = {
            let mut shared = self.0.lock().unwrap();
            shared.dials += 1;
            shared.down
        };
        let dialed = if down {
            Err(DialError::new("connection refused"))
        } else {
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            tokio::spawn(self.clone().serve(theirs));
            Ok(BoxTransport::lines(ours))
        };
        Box::pin(std::future::ready(dialed))
    }
}
