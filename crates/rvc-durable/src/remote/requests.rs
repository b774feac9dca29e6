use bytes::Bytes;
use futures_util::StreamExt as _;
use rvc_mcp::{SseBody, SseHttp};

/// The HTTP client under HTTP+SSE. It is built where streamable HTTP's is, and follows no redirect.
///
/// Its errors do not show the URL: the endpoint's has the session in it, and what failed is
/// logged and stored.
#[derive(Clone)]
pub(super) struct Requests(pub(super) reqwest::Client);

impl SseHttp for Requests {
    type Error = reqwest::Error;

    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<SseBody<reqwest::Error>>, reqwest::Error> {
        let mut response = self
            .0
            .execute(request.try_into()?)
            .await
            .map_err(reqwest::Error::without_url)?;
        let mut head = http::Response::new(());
        *head.status_mut() = response.status();
        *head.headers_mut() = std::mem::take(response.headers_mut());
        let body = response
            .bytes_stream()
            .map(|chunk| chunk.map_err(reqwest::Error::without_url));
        Ok(head.map(|()| body.boxed()))
    }
}
