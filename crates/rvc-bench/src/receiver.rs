//! A bare receiver in a process of its own: it reads each POST and answers 204.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The argument that turns this program into the receiver.
pub(crate) const ARGUMENT: &str = "receiver";

/// The receiver as a child process; it ends with its owner.
pub(crate) struct Receiver {
    child: Child,
    pub(crate) addr: SocketAddr,
}

impl Receiver {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the receiver")?;
        let stdout = child
            .stdout
            .take()
            .context("the receiver's output is piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let addr = line
            .trim()
            .parse()
            .context("the receiver prints its address")?;
        Ok(Self { child, addr })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // Nothing can be done about a child that has ended on its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child's side: prints its address, then serves until its owner is gone.
pub(crate) fn run() -> anyhow::Result<()> {
    // The owner holds the other end of standard input, also when it is killed.
    std::thread::spawn(|| {
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        std::process::exit(0);
    });
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let mut stdout = std::io::stdout();
            writeln!(stdout, "{}", listener.local_addr()?)?;
            stdout.flush()?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(acknowledge));
                tokio::spawn(connection);
            }
        })
}

async fn acknowledge(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    // A body that breaks off breaks the connection, too.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
