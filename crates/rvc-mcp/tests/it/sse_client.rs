//! A client of the HTTP+SSE transport that does no more than it must.

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

pub(crate) struct SseClient {
    /// host:port
    authority: String,
    /// Where to POST.
    path: String,
    body: Incoming,
    buffer: String,
    next_id: u64,
}

impl SseClient {
    /// Opens a stream and reads where to POST.
    pub(crate) async fn open(url: &str) -> Self {
        let uri: http::Uri = url.parse().unwrap();
        let authority = uri.authority().unwrap().to_string();
        let request = Request::get(uri.path())
            .header(header::HOST, &authority)
            .header(header::ACCEPT, "text/event-stream")
            .body(Full::default())
            .unwrap();
        let response = send(&authority, request).await;
        assert_eq!(response.status(), StatusCode::OK);
        let mut client = Self {
            authority,
            path: String::new(),
            body: response.into_body(),
            buffer: String::new(),
            next_id: 1,
        };
        let (event, data) = client.event().await.unwrap();
        assert_eq!(event, "endpoint");
        client.path = data;
        client
    }

    /// Opens a stream and goes through the handshake.
    pub(crate) async fn connect(url: &str) -> Self {
        let mut client = Self::open(url).await;
        let hello = json!({
            "protocolVersion": "2024-11-05", "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        });
        client.request("initialize", &hello).await;
        client.notify("notifications/initialized", &json!({})).await;
        client
    }

    pub(crate) async fn post(&self, message: &Value) -> StatusCode {
        let request = Request::post(&self.path)
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(message.to_string()))
            .unwrap();
        send(&self.authority, request).await.status()
    }

    pub(crate) async fn notify(&self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        assert_eq!(self.post(&message).await, StatusCode::ACCEPTED);
    }

    /// Sends a request and does not wait for the answer.
    pub(crate) async fn begin(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        assert_eq!(self.post(&message).await, StatusCode::ACCEPTED);
        id
    }

    pub(crate) async fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params).await;
        let answer = self.message().await.unwrap();
        assert_eq!(answer["id"], id);
        answer["result"].clone()
    }

    /// Calls a tool; the text of its answer.
    pub(crate) async fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.request("tools/call", &params).await;
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// The next message, or none when the stream has ended.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        let (event, data) = self.event().await?;
        assert_eq!(event, "message");
        Some(serde_json::from_str(&data).unwrap())
    }

    async fn event(&mut self) -> Option<(String, String)> {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let event: String = self.buffer.drain(..end + 2).collect();
                let event = event.trim_end();
                if event.starts_with(':') {
                    continue;
                }
                let (event, data) = event.split_once('\n').unwrap();
                let event = event.strip_prefix("event: ").unwrap().to_owned();
                let data = data.strip_prefix("data: ").unwrap().to_owned();
                return Some((event, data));
            }
            let frame = self.body.frame().await?.ok()?;
            let data = frame.into_data().unwrap();
            self.buffer.push_str(std::str::from_utf8(&data).unwrap());
        }
    }
}

/// Sends one request on a connection of its own.
pub(crate) async fn send(
    authority: &str,
    request: Request<Full<Bytes>>,
) -> http::Response<Incoming> {
    let stream = TcpStream::connect(authority).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}
