//! A server on a real socket that answers HTTP as a script says, right or wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What the server answers to one POST.
#[derive(Clone)]
pub(crate) enum Http {
    /// 200 with this result, as JSON.
    Json(Value),
    /// 200 with these messages, as SSE; the last one is the result.
    Sse(Vec<Value>),
    /// Progress as SSE, without end.
    EndlessSse,
    /// 200, the headers of a body of this type, and then nothing for ever.
    Stalled(&'static str),
    /// This status line and these headers, without a body.
    Status(&'static str, Vec<(&'static str, String)>),
    /// 200 with a body of so many bytes that is no JSON, as JSON.
    Huge(usize),
    /// The same as one SSE event.
    HugeSse(usize),
    /// 200 with this result, as JSON, and a session to keep.
    Session(Value),
    /// A JSON-RPC error.
    Error(i32),
    /// The connection ends.
    HangUp,
}

#[derive(Clone)]
pub(crate) struct HttpPeer {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<(String, Headers)>>>,
    legacy: bool,
}

/// Headers by their name in lower case.
type Headers = HashMap<String, String>;

/// Bytes in both directions, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

type Script = Arc<Mutex<dyn FnMut(&str, &Value, usize) -> Http + Send>>;

impl HttpPeer {
    pub(crate) async fn new(
        script: impl FnMut(&str, &Value, usize) -> Http + Send + 'static,
    ) -> Self {
        Self::over(None, false, script).await
    }

    /// One that knows sessions and no discovery.
    pub(crate) async fn legacy(
        script: impl FnMut(&str, &Value, usize) -> Http + Send + 'static,
    ) -> Self {
        Self::over(None, true, script).await
    }

    /// With TLS, if there is something to do it with.
    pub(crate) async fn over(
        tls: Option<TlsAcceptor>,
        legacy: bool,
        script: impl FnMut(&str, &Value, usize) -> Http + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let peer = Self {
            url: format!("{scheme}://{}/mcp", listener.local_addr().unwrap()),
            calls: Arc::default(),
            legacy,
        };
        let serving = peer.clone();
        let script: Script = Arc::new(Mutex::new(script));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (serving, script, tls) = (serving.clone(), script.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serving.serve(stream, script).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serving.serve(stream, script).await;
                            }
                        }
                    }
                });
            }
        });
        peer
    }

    /// How often a method was posted.
    pub(crate) fn count(&self, method: &str) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(called, _)| called == method).count()
    }

    /// What each post of a method had in a header; empty where it had none.
    pub(crate) fn header(&self, method: &str, header: &str) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        let posts = calls.iter().filter(|(called, _)| called == method);
        let values = posts.map(|(_, headers)| headers.get(header).cloned().unwrap_or_default());
        values.collect()
    }

    async fn serve(self, stream: impl Stream, script: Script) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = request(&mut stream).await {
            let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let method = message["method"].as_str().unwrap_or("other").to_owned();
            let nth = {
                let mut calls = self.calls.lock().unwrap();
                calls.push((method.clone(), request.headers));
                calls.iter().filter(|(called, _)| *called == method).count()
            };
            let reply = match method.as_str() {
                // A GET or a DELETE: there is no stream to listen to, and no session to end.
                "other" => Http::Status("405 Method Not Allowed", vec![]),
                "server/discover" if self.legacy => Http::Error(-32601),
                "initialize" => Http::Session(json!({
                    "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "legacy", "version": "0"}
                })),
                "server/discover" => Http::Json(discovery()),
                _ if message.get("id").is_none() => Http::Status("202 Accepted", vec![]),
                _ => (script.lock().unwrap())(&method, &message["params"], nth),
            };
            if write(stream.get_mut(), &message["id"], reply)
                .await
                .is_none()
            {
                return;
            }
        }
    }
}

/// Answers one discovery, says that the connection ends, and ends it.
pub(crate) async fn answer_discovery_and_close(stream: tokio::net::TcpStream) {
    let mut stream = BufReader::new(stream);
    let request = request(&mut stream).await.unwrap();
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": discovery()}).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
}

fn discovery() -> Value {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        "ttlMs": 0, "cacheScope": "private"
    })
}

/// One request of HTTP.
pub(crate) struct Request {
    /// Its first line.
    pub(crate) line: String,
    headers: Headers,
    pub(crate) body: Vec<u8>,
}

/// Reads one request; `None` at the end.
pub(crate) async fn request(stream: &mut BufReader<impl AsyncRead + Unpin>) -> Option<Request> {
    let mut headers = Headers::new();
    let mut first: Option<String> = None;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() && first.is_some() {
            break;
        }
        if first.is_none() {
            first = Some(line.to_owned());
        } else if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let length = headers.get("content-length");
    let mut body = vec![0; length.map_or(Ok(0), |length| length.parse()).ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request {
        line: first?,
        headers,
        body,
    })
}

/// Writes a head and then so many bytes, if anybody reads them.
pub(crate) async fn pour(
    stream: &mut (impl AsyncWrite + Unpin),
    head: &str,
    mut bytes: usize,
) -> Option<()> {
    stream.write_all(head.as_bytes()).await.ok()?;
    let chunk = vec![b'x'; 1 << 16];
    while bytes > 0 {
        let some = bytes.min(chunk.len());
        stream.write_all(&chunk[..some]).await.ok()?;
        bytes -= some;
    }
    Some(())
}

async fn write(stream: &mut impl Stream, id: &Value, reply: Http) -> Option<()> {
    let answer = |result: &Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let head = match reply {
        Http::Json(result) => {
            let body = answer(&result);
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        }
        Http::Sse(mut messages) => {
            let result = messages.pop().unwrap();
            let mut text =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
                    .to_owned();
            let messages = messages.iter().map(Value::to_string);
            for message in messages.chain([answer(&result)]) {
                text.extend(["data: ", &message, "\n\n"]);
            }
            stream.write_all(text.as_bytes()).await.ok()?;
            return None;
        }
        Http::EndlessSse => {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await.ok()?;
            loop {
                let message = json!({"jsonrpc": "2.0", "method": "notifications/message",
                    "params": {"level": "info", "data": "still here"}});
                let text = format!("data: {message}\n\n");
                stream.write_all(text.as_bytes()).await.ok()?;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        Http::Stalled(kind) => {
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: 100\r\n\r\n");
            stream.write_all(head.as_bytes()).await.ok()?;
            std::future::pending().await
        }
        Http::Status(status, headers) => {
            let headers: Vec<String> = headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .collect();
            let headers = headers.concat();
            format!("HTTP/1.1 {status}\r\n{headers}content-length: 0\r\n\r\n")
        }
        Http::Huge(bytes) => {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\r\n"
            );
            pour(stream, &head, bytes).await?;
            return None;
        }
        Http::HugeSse(bytes) => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: ";
            pour(stream, head, bytes).await?;
            return None;
        }
        Http::Session(result) => {
            let body = answer(&result);
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s-1\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        }
        Http::Error(code) => {
            let error = json!({"code": code, "message": "no"});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        }
        Http::HangUp => return None,
    };
    stream.write_all(head.as_bytes()).await.ok()
}
