//! The binary, run with nothing of this process's environment that it reads.

use std::ffi::OsStr;
use std::io::{PipeReader, PipeWriter, Write};
use std::process::{Command, Stdio};
use std::thread;

pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn command<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rvc"));
    command.args(arguments);
    for name in [
        "RVC_EVENT_SECRET",
        "RVC_EVENT_SECRET_FILE",
        "RUST_LOG",
        "NO_COLOR",
        "CREDENTIALS_DIRECTORY",
        "RVC_TOKEN_ROBOT",
    ] {
        command.env_remove(name);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn run<I: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = I>,
    input: impl AsRef<[u8]>,
) -> Answer {
    answer(&mut command(arguments), input)
}

pub(crate) fn answer(command: &mut Command, input: impl AsRef<[u8]>) -> Answer {
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    let output = child.wait_with_output().unwrap();
    Answer {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A pipe that is full, and stays so until it is dropped.
pub(crate) struct FullPipe {
    reader: Option<PipeReader>,
    writer: PipeWriter,
    filling: Option<thread::JoinHandle<()>>,
}

impl FullPipe {
    pub(crate) fn new() -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut filled = writer.try_clone().unwrap();
        let filling = thread::spawn(move || while filled.write_all(&[b'x'; 4096]).is_ok() {});
        Self {
            reader: Some(reader),
            writer,
            filling: Some(filling),
        }
    }

    /// Its end that takes no more.
    pub(crate) fn writer(&self) -> PipeWriter {
        self.writer.try_clone().unwrap()
    }
}

impl Drop for FullPipe {
    fn drop(&mut self) {
        self.reader.take();
        let _ = self.filling.take().map(thread::JoinHandle::join);
    }
}
