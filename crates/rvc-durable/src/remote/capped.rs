//! rmcp's HTTP client, with two differences: an SSE event that is too large is reported, and
//! errors do not show the URL.
//!
//! rmcp closes the stream and says that the answer never came, which is what a broken connection
//! says too. A poll would then be repeated for ever; a result that is too large stays so.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use rvc_mcp::TOO_LARGE;
use serde_json::json;
use sse_stream::Sse;

#[derive(Clone)]
pub(super) struct CappedClient(pub(super) reqwest::Client);

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

impl StreamableHttpClient for CappedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let request = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let posted = self
            .0
            .post_message_with_response_limits(uri, message, session, token, headers, limits)
            .await
            .map_err(without_url)?;
        Ok(match (posted, request) {
            (StreamableHttpPostResponse::Sse(events, session), Some(request)) => {
                let events = events.map(move |event| match event {
                    Err(error) if is_too_large(&error) => Ok(too_large(&request)),
                    event => event,
                });
                StreamableHttpPostResponse::Sse(events.boxed(), session)
            }
            (posted, _) => posted,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.0
            .delete_session(uri, session, token, headers)
            .await
            .map_err(without_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        self.0
            .get_stream(uri, session, last_event, token, headers)
            .await
            .map_err(without_url)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        largest: usize,
    ) -> Result<Events, Failure> {
        self.0
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, largest)
            .await
            .map_err(without_url)
    }
}

/// What failed is logged and stored, and a URL may have more in it than a reader should see.
fn without_url(failure: Failure) -> Failure {
    match failure {
        Failure::Client(error) => Failure::Client(error.without_url()),
        other => other,
    }
}

/// rmcp keeps the type of this error to itself; its text is what there is to go by.
fn is_too_large(error: &SseError) -> bool {
    error
        .to_string()
        .contains("SSE event exceeded the maximum size")
}

/// The answer that the request gets instead.
fn too_large(request: &RequestId) -> Sse {
    let answer = json!({
        "jsonrpc": "2.0", "id": request,
        "error": {"code": -32000, "message": "the answer is too large", "data": {TOO_LARGE: true}}
    });
    Sse::default().data(answer.to_string())
}

/// Whether an error is ours for an answer that is too large, of either transport. A server that
/// sends the same says the same.
pub(super) fn says_too_large(error: &ErrorData) -> bool {
    error
        .data
        .as_ref()
        .is_some_and(|data| data[TOO_LARGE] == true)
}
