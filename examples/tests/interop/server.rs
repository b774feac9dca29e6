use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::script::example;

/// A server as a process; it is killed on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

/// A program whose environment says nothing to a server.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for variable in ["RVC_CALLBACK_URL", "RUST_LOG", "MCP_ALLOWED_HOSTS"] {
        command.env_remove(variable);
    }
    command
}

impl Server {
    /// The release build of an example on a free port.
    pub(crate) fn start(name: &str) -> Self {
        let mut command = command(example(name));
        command.args(["--transport", "streamable-http", "--port", "0"]);
        Self::spawn(command)
    }

    /// A server that says in its log where it serves, as ours do.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("run `cargo xtask ci interop`, which builds the examples");
        let stderr = child.stderr.take().expect("it is piped");
        let mut log = BufReader::new(stderr).lines().map_while(Result::ok);
        // The end of the log ends the wait too.
        let url = log.by_ref().find_map(|line| {
            let line: Value = serde_json::from_str(&line).ok()?;
            Some(line["url"].as_str()?.to_owned())
        });
        thread::spawn(move || log.for_each(drop));
        Self {
            child,
            url: url.expect("a server says where it serves"),
        }
    }

    /// Ends it as nothing else does.
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
