use ::http::{Request, Response};
use bytes::Bytes;
use futures_util::stream::BoxStream;

/// The body of a response, piece by piece.
pub type SseBody<E> = BoxStream<'static, Result<Bytes, E>>;

/// The HTTP that an [`SseClient`](super::SseClient) goes over: TLS, connections and their limits
/// are its own affair.
///
/// # Cancel safety
///
/// Dropping the future gives the request up; the server may have had it.
pub trait SseHttp: Clone + Send + Sync + 'static {
    /// Why there is no response. Whoever must know whether a message left finds it in here.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Sends one request, once, and returns the head of the response with the rest as a stream.
    ///
    /// It must neither follow a redirect nor send a second time what may have arrived: a message
    /// may start work.
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<SseBody<Self::Error>>, Self::Error>> + Send;
}
