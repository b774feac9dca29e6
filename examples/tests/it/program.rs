use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// An example as a process of its own; it is killed on drop.
pub(crate) struct Program {
    child: Child,
    log: Receiver<String>,
    seen: Vec<String>,
}

impl Program {
    /// Starts the example that was built beside this test.
    pub(crate) fn start(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = Self::command(name, arguments, variables)
            .spawn()
            .expect("cargo builds the examples with the tests");
        let stderr = child.stderr.take().expect("it is piped");
        let (sender, log) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            log,
            seen: Vec::new(),
        }
    }

    /// The log of a server that no client comes to on standard input.
    pub(crate) fn log_of(name: &str, arguments: &[&str]) -> String {
        let ended = Self::command(name, arguments, &[]).output();
        let log = ended
            .expect("cargo builds the examples with the tests")
            .stderr;
        String::from_utf8(log).expect("the log is text")
    }

    fn command(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let this = std::env::current_exe().expect("a test knows its own path");
        let build = this
            .ancestors()
            .nth(2)
            .expect("it is in deps, in the build's directory");
        let mut command = Command::new(build.join("examples").join(name));
        for (variable, _) in std::env::vars_os() {
            let text = variable.to_string_lossy();
            if text.starts_with("RVC_") || text.starts_with("MCP_") || text == "RUST_LOG" {
                command.env_remove(&variable);
            }
        }
        command
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a server on a free port, and returns where it speaks MCP.
    pub(crate) fn serve(name: &str, variables: &[(&str, &str)]) -> (Self, String) {
        let flags = ["--transport", "streamable-http", "--port", "0"];
        let mut program = Self::start(name, &flags, variables);
        let url = program.url();
        (program, url)
    }

    /// Waits until the server serves, and returns where it speaks MCP.
    pub(crate) fn url(&mut self) -> String {
        let line = self.logged("serving", |_| true);
        line["url"].as_str().expect("it says where").to_owned()
    }

    /// Waits for the next log line with this message that is the one looked for.
    pub(crate) fn logged(&mut self, message: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            match self
                .log
                .recv_timeout(DEADLINE.saturating_sub(start.elapsed()))
            {
                Ok(text) => {
                    let line: Value = serde_json::from_str(&text)
                        .unwrap_or_else(|error| panic!("the log is JSON lines: {error} in {text}"));
                    self.seen.push(text);
                    if line["message"] == message && is_it(&line) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no {message:?} in {:#?}", self.seen),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended: {:#?}", self.seen),
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
