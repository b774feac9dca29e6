//! An HTTP+SSE server on a real socket that says what a script says, right or wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::http_peer::{Request, pour, request};

/// What a POST of a request gets, and what comes on the stream.
#[derive(Clone)]
pub(crate) enum Sse {
    /// 202, and this result.
    Result(Value),
    /// 202, and the contract's JSON in a tool's result.
    Json(Value),
    /// 202, and the beginning of a result of so many bytes.
    Huge(usize),
    /// The same with the request's id at its end.
    HugeNamedLast(usize),
    /// This status line and these headers.
    Status(&'static str, Vec<(&'static str, String)>),
    /// 202, and then the stream ends.
    DropStream,
    /// The POST's connection ends without a word.
    HangUp,
    /// No word to the POST.
    Silence,
}

/// How the GET is answered.
#[derive(Clone)]
pub(crate) enum Opening {
    /// With this endpoint.
    Endpoint(String),
    /// With the usual endpoint, where nobody listens any more after the handshake.
    Vanishing,
    /// With this status line and these headers.
    Status(&'static str, Vec<(&'static str, String)>),
}

#[derive(Clone)]
pub(crate) struct SsePeer {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    gone: watch::Sender<bool>,
}

type Script = Box<dyn FnMut(&str, &Value, usize) -> Sse + Send>;

struct State {
    script: Script,
    counts: HashMap<String, usize>,
    bodies: Vec<Value>,
    /// The stream that was opened last; none after its end.
    stream: Option<mpsc::UnboundedSender<Frame>>,
}

enum Frame {
    Text(String),
    /// Bytes between a beginning and an end.
    Huge(String, usize, String),
}

impl SsePeer {
    /// A server whose tools answer as `script` says, called with the tool, the parameters, and
    /// the how manieth call of it this is.
    pub(crate) async fn new(
        script: impl FnMut(&str, &Value, usize) -> Sse + Send + 'static,
    ) -> Self {
        Self::opening(Opening::Endpoint(ENDPOINT.into()), script).await
    }

    pub(crate) async fn opening(
        opening: Opening,
        script: impl FnMut(&str, &Value, usize) -> Sse + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (gone, mut is_gone) = watch::channel(false);
        let peer = Self {
            url: format!("http://{}/sse", listener.local_addr().unwrap()),
            state: Arc::new(Mutex::new(State {
                script: Box::new(script),
                counts: HashMap::new(),
                bodies: Vec::new(),
                stream: None,
            })),
            gone,
        };
        let serving = peer.clone();
        tokio::spawn(async move {
            loop {
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap().0,
                    _ = is_gone.wait_for(|gone| *gone) => return,
                };
                tokio::spawn(serving.clone().serve(stream, opening.clone()));
            }
        });
        peer
    }

    /// How often a tool was called, or "GET" or a method was seen.
    pub(crate) fn count(&self, name: &str) -> usize {
        let state = self.state.lock().unwrap();
        state.counts.get(name).copied().unwrap_or(0)
    }

    /// Everything that was posted.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.state.lock().unwrap().bodies.clone()
    }

    async fn serve(self, stream: TcpStream, opening: Opening) {
        let mut stream = BufReader::new(stream);
        while let Some(Request { line, body, .. }) = request(&mut stream).await {
            if line.starts_with("GET /sse ") {
                *self
                    .state
                    .lock()
                    .unwrap()
                    .counts
                    .entry("GET".into())
                    .or_default() += 1;
                let _ = self.stream(stream.get_mut(), opening).await;
                return;
            }
            assert_eq!(line, format!("POST {ENDPOINT} HTTP/1.1"));
            let message: Value = serde_json::from_slice(&body).unwrap();
            if matches!(opening, Opening::Vanishing)
                && message["method"] == "notifications/initialized"
            {
                self.gone.send_replace(true);
                let close = [("connection", "close".to_owned())];
                let _ = answer(stream.get_mut(), "202 Accepted", &close).await;
                return;
            }
            if self.post(stream.get_mut(), message).await.is_none() {
                return;
            }
        }
    }

    async fn stream(&self, socket: &mut TcpStream, opening: Opening) -> Option<()> {
        let endpoint = match opening {
            Opening::Endpoint(endpoint) => endpoint,
            Opening::Vanishing => ENDPOINT.into(),
            Opening::Status(status, headers) => return answer(socket, status, &headers).await,
        };
        let (sender, mut frames) = mpsc::unbounded_channel();
        self.state.lock().unwrap().stream = Some(sender);
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let hello = format!("{head}: hello\r\n\r\nevent: endpoint\r\ndata: {endpoint}\r\n\r\n");
        socket.write_all(hello.as_bytes()).await.ok()?;
        while let Some(frame) = frames.recv().await {
            match frame {
                Frame::Text(text) => socket.write_all(text.as_bytes()).await.ok()?,
                Frame::Huge(head, bytes, end) => {
                    pour(socket, &head, bytes).await?;
                    socket.write_all(end.as_bytes()).await.ok()?;
                }
            }
        }
        Some(())
    }

    async fn post(&self, socket: &mut (impl AsyncWrite + Unpin), message: Value) -> Option<()> {
        let method = message["method"].as_str().unwrap_or("response").to_owned();
        let tool = message["params"]["name"].as_str().unwrap_or_default();
        let name = if method == "tools/call" {
            tool.to_owned()
        } else {
            method.clone()
        };
        let reply = {
            let mut state = self.state.lock().unwrap();
            let count = state.counts.entry(name.clone()).or_default();
            *count += 1;
            let nth = *count;
            state.bodies.push(message.clone());
            match method.as_str() {
                "initialize" => Some(Sse::Result(json!({
                    "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "old", "version": "0"}
                }))),
                "tools/call" => Some((state.script)(&name, &message["params"], nth)),
                _ => None,
            }
        };
        let id = &message["id"];
        let text = match reply {
            Some(Sse::Result(result)) => Some(result),
            Some(Sse::Json(value)) => {
                Some(json!({"content": [{"type": "text", "text": value.to_string()}]}))
            }
            Some(Sse::Huge(bytes)) => {
                let head = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"");
                self.send(Frame::Huge(head, bytes, "\"}\n\n".to_owned()));
                None
            }
            Some(Sse::HugeNamedLast(bytes)) => {
                let head = "data: {\"jsonrpc\":\"2.0\",\"result\":\"".to_owned();
                self.send(Frame::Huge(head, bytes, format!("\",\"id\":{id}}}\n\n")));
                None
            }
            Some(Sse::Status(status, headers)) => return answer(socket, status, &headers).await,
            Some(Sse::DropStream) => {
                answer(socket, "202 Accepted", &[]).await?;
                self.state.lock().unwrap().stream = None;
                return Some(());
            }
            Some(Sse::HangUp) => return None,
            Some(Sse::Silence) => std::future::pending().await,
            None => None,
        };
        if let Some(result) = text {
            let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
            self.send(Frame::Text(format!(
                ": ping\r\n\r\nevent: message\r\ndata: {message}\r\n\r\n"
            )));
        }
        answer(socket, "202 Accepted", &[]).await
    }

    fn send(&self, frame: Frame) {
        if let Some(stream) = &self.state.lock().unwrap().stream {
            let _ = stream.send(frame);
        }
    }
}

const ENDPOINT: &str = "/messages?sid=1";

async fn answer(
    socket: &mut (impl AsyncWrite + Unpin),
    status: &str,
    headers: &[(&'static str, String)],
) -> Option<()> {
    let mut text = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n");
    for (name, value) in headers {
        text.extend([name, ": ", value, "\r\n"]);
    }
    text.push_str("\r\n");
    socket.write_all(text.as_bytes()).await.ok()
}
