//! A server that is killed: each of its lives is a process, and with it ends all that it knew.
//!
//! ```text
//! clients ──► proxy ──► this binary again, running `serves`   (life 1, SIGKILL)
//!               └─────► and again                             (life 2, …)
//! ```

mod record;
mod robot;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use rvc_mcp::Transport;
use rvc_test::{FaultProxy, Target};
use serde::{Deserialize, Serialize};

use self::robot::Robot;
use super::history::Journal;

/// A server behind its proxy.
pub(super) struct Server {
    pub(super) proxy: FaultProxy,
    life: Mutex<Life>,
}

impl Server {
    pub(super) fn start(index: usize, folder: &Path) -> Self {
        let life = Life::begin(Birth {
            server: index,
            life: 1,
            folder: folder.to_owned(),
        });
        Self {
            proxy: FaultProxy::start(Target::Tcp(life.address)).unwrap(),
            life: Mutex::new(life),
        }
    }

    /// Where clients find it, in every life.
    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.proxy.address())
    }

    /// Ends its life, wherever in its work it is.
    pub(super) fn kill(&self) {
        self.life.lock().unwrap().end();
        // Its port may soon be somebody else's.
        self.proxy.refuse();
    }

    pub(super) fn revive(&self) {
        let mut life = self.life.lock().unwrap();
        let birth = life.birth.clone();
        *life = Life::begin(Birth {
            life: birth.life + 1,
            ..birth
        });
        self.proxy.retarget(Target::Tcp(life.address));
        self.proxy.restore();
    }
}

/// What a process is told of itself, in a variable of its environment.
#[derive(Clone, Serialize, Deserialize)]
struct Birth {
    server: usize,
    /// The first is 1.
    life: u32,
    /// Where the histories are.
    folder: PathBuf,
}

/// The variable.
const BIRTH: &str = "RVC_CHAOS_BIRTH";

/// A process. It ends when this is dropped, or when this process ends: then its standard input
/// does.
struct Life {
    birth: Birth,
    child: Child,
    address: SocketAddr,
    /// The test harness in the child has its own things to say.
    _stdout: BufReader<ChildStdout>,
}

impl Life {
    fn begin(birth: Birth) -> Self {
        let log = birth.folder.join(format!("server-{}.log", birth.server));
        let log = OpenOptions::new().create(true).append(true).open(log);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "chaos::server::serves"])
            .args(["--ignored", "--nocapture"])
            .env(BIRTH, serde_json::to_string(&birth).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut lines = stdout.by_ref().lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.parse().ok());
        Self {
            birth,
            child,
            address: address.expect("a server that does not start says why in its log"),
            _stdout: stdout,
        }
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "a server had ended by itself");
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "it is the process that the chaos starts"]
fn serves() {
    let Ok(birth) = std::env::var(BIRTH) else {
        return;
    };
    let birth: Birth = serde_json::from_str(&birth).unwrap();
    // Each life has a file of its own: where the kill tears a line, it is the file's last.
    let witness = format!("server-{}-{}", birth.server, birth.life);
    let journal = Journal::create(&birth.folder, &witness);
    let robot = Robot::new(birth.server, birth.life, journal);
    let (_runtime, url) = crate::serving::serve(Transport::StreamableHttp, robot);
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    // The test harness may have begun a line.
    println!("\n{address}");

    // Until the parent ends, however it does.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

#[test]
fn a_server_ends_with_the_process_that_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut life = Life::begin(Birth {
        server: 0,
        life: 1,
        folder: folder.path().to_owned(),
    });
    assert!(std::net::TcpStream::connect(life.address).is_ok());

    // The end of a process closes its pipes.
    drop(life.child.stdin.take());

    assert!(life.child.wait().unwrap().success());
}
