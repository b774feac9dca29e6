use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::AbortOnDropHandle;

/// Stands between a store and its server, and cuts the connection between a commit and its
/// answer.
pub(super) struct Proxy {
    folder: TempDir,
    scissors: Arc<Scissors>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Scissors {
    /// The beginning of the tag of the command whose answer does not arrive.
    tag: Mutex<Option<&'static str>>,
    cuts: AtomicU32,
}

impl Proxy {
    pub(super) fn to(server: PathBuf) -> Self {
        let folder = tempfile::Builder::new().prefix("rvc-").tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let scissors = Arc::<Scissors>::default();
        let shared = scissors.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, scissors) = (server.clone(), shared.clone());
                tokio::spawn(async move {
                    let Ok(server) = UnixStream::connect(server).await else {
                        return;
                    };
                    let (mut from_client, to_client) = client.into_split();
                    let (from_server, mut to_server) = server.into_split();
                    tokio::select! {
                        _ = copy(&mut from_client, &mut to_server) => {}
                        _ = answers(from_server, to_client, &scissors) => {}
                    }
                });
            }
        });
        Self {
            folder,
            scissors,
            _task: AbortOnDropHandle::new(task),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The next command whose tag begins so is carried out and not answered.
    pub(super) fn cut(&self, tag: &'static str) {
        *self.scissors.tag.lock().unwrap() = Some(tag);
    }

    pub(super) fn cuts(&self) -> u32 {
        self.scissors.cuts.load(Ordering::Relaxed)
    }
}

/// Passes the server's messages on, one by one, up to the one that is not to arrive. The server
/// says `ReadyForQuery` once the commit is made: until then it is not cut.
async fn answers(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    scissors: &Scissors,
) -> std::io::Result<()> {
    let mut swallowing = false;
    loop {
        let mut head = [0; 5];
        server.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        server.read_exact(&mut body).await?;
        if head[0] == b'C' {
            let mut tag = scissors.tag.lock().unwrap();
            if tag.is_some_and(|tag| body.starts_with(tag.as_bytes())) {
                *tag = None;
                swallowing = true;
            }
        }
        if swallowing && head[0] == b'Z' {
            scissors.cuts.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        if !swallowing {
            client.write_all(&head).await?;
            client.write_all(&body).await?;
        }
    }
}
