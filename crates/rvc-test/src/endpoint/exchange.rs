//! The bytes of requests and replies.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::{Received, Reply};

/// Answers requests until one side ends the connection.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    connection: usize,
    mut reply: impl FnMut(Received) -> Reply,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    while let Some(received) = read_request(&mut stream, &mut buffer, connection).await? {
        let mut next = reply(received);
        let mut keep = true;
        loop {
            next = match next {
                Reply::Later(time, reply) => {
                    sleep(time).await;
                    *reply
                }
                Reply::ThenClose(reply) => {
                    keep = false;
                    *reply
                }
                Reply::Answer {
                    status,
                    headers,
                    body,
                } => {
                    let headers: String = headers
                        .into_iter()
                        .chain([("content-length".to_owned(), body.len().to_string())])
                        .flat_map(|(name, value)| [name, ": ".to_owned(), value, "\r\n".to_owned()])
                        .collect();
                    let head = format!("HTTP/1.1 {status} Scripted\r\n{headers}\r\n");
                    let answer = [head.as_bytes(), &body].concat();
                    stream.write_all(&answer).await?;
                    break;
                }
                Reply::Raw(bytes) => {
                    stream.write_all(&bytes).await?;
                    return stream.shutdown().await;
                }
                Reply::Hang => {
                    // Until the peer hangs up.
                    while stream.read(&mut [0; 1_024]).await? > 0 {}
                    return Ok(());
                }
                Reply::Endless {
                    status,
                    chunk,
                    every,
                } => {
                    let head =
                        format!("HTTP/1.1 {status} Scripted\r\ntransfer-encoding: chunked\r\n\r\n");
                    stream.write_all(head.as_bytes()).await?;
                    let chunk = format!("{chunk:x}\r\n{}\r\n", "x".repeat(chunk));
                    loop {
                        stream.write_all(chunk.as_bytes()).await?;
                        if !every.is_zero() {
                            sleep(every).await;
                        }
                    }
                }
            };
        }
        if !keep {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

/// Reads one request with a Content-Length; `None` at the end of the connection.
async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    connection: usize,
) -> io::Result<Option<Received>> {
    let head = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.advance(end + 4);
            break head;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let mut lines = head.split("\r\n");
    let mut request_line = lines.next().unwrap_or_default().split(' ');
    let mut word = || request_line.next().unwrap_or_default().to_owned();
    let (method, target) = (word(), word());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body: Bytes = buffer.split_to(length).freeze();
    Ok(Some(Received {
        at: Instant::now(),
        connection,
        method,
        target,
        headers,
        body,
    }))
}
