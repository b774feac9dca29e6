use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};

/// Standard output, written by a thread of its own: whoever reads it slowly, or not at all, holds
/// nobody up.
///
/// The first failure to write is the end of it, and is kept.
pub(crate) struct Sheet {
    lines: mpsc::Sender<Line>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Lines that found no room, and that no later line has told of yet.
    missed: AtomicU64,
    failure: Mutex<Option<io::ErrorKind>>,
    failed: Notify,
}

struct Line {
    /// With its line ending; empty, it is only a question whether all before it is printed.
    text: String,
    /// How many lines found no room just before it.
    missed: u64,
    /// Whoever waits for it. When nobody does any longer, it is not printed.
    printed: Option<oneshot::Sender<()>>,
}

impl Sheet {
    /// Starts to write to standard output, lines of JSON or for people.
    pub(crate) fn start(is_json: bool) -> anyhow::Result<Self> {
        let missed = if is_json { missed_json } else { missed_text };
        Self::on(Stdout, missed)
    }

    fn on(out: impl Write + Send + 'static, missed: fn(u64) -> String) -> anyhow::Result<Self> {
        let (lines, queue) = mpsc::channel(MOST_LINES);
        let state = Arc::new(State::default());
        let printer = Printer {
            out,
            missed,
            state: Arc::clone(&state),
        };
        thread::Builder::new()
            .name("printer".to_owned())
            .spawn(move || printer.run(queue))
            .context("cannot start")?;
        Ok(Self { lines, state })
    }

    /// Prints one line when its turn comes. Where there is no room for it, it is counted only.
    ///
    /// # Errors
    ///
    /// What went wrong with a line before.
    pub(crate) fn line(&self, text: impl Into<String>) -> io::Result<()> {
        let missed = self.state.missed.swap(0, Ordering::Relaxed);
        let line = Line {
            text: ended(text),
            missed,
            printed: None,
        };
        match self.lines.try_send(line) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                self.state.missed.fetch_add(missed + 1, Ordering::Relaxed);
                Ok(())
            }
            Err(TrySendError::Closed(_)) => Err(self.state.error()),
        }
    }

    /// Prints one line, and waits until it is printed.
    ///
    /// # Errors
    ///
    /// When it is not, or not whole.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the line is not printed, unless that had begun.
    pub(crate) async fn print(&self, text: impl Into<String>) -> io::Result<()> {
        self.send(ended(text)).await
    }

    /// Waits until every line so far is printed.
    ///
    /// # Errors
    ///
    /// When a line was not.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub(crate) async fn printed(&self) -> io::Result<()> {
        self.send(String::new()).await
    }

    /// As [`printed`](Self::printed), for at most `most`.
    ///
    /// # Errors
    ///
    /// When a line was not printed; with [`io::ErrorKind::TimedOut`] when nobody reads.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub(crate) async fn finish(&self, most: Duration) -> io::Result<()> {
        let finished = tokio::time::timeout(most, self.printed()).await;
        finished.unwrap_or_else(|_| {
            let reason = "nobody reads standard output";
            Err(io::Error::new(io::ErrorKind::TimedOut, reason))
        })
    }

    /// Waits until a line could not be printed.
    pub(crate) async fn failed(&self) {
        self.state.failed.notified().await;
    }

    async fn send(&self, text: String) -> io::Result<()> {
        let (printed, outcome) = oneshot::channel();
        let room = self.lines.reserve().await;
        let room = room.map_err(|_| self.state.error())?;
        room.send(Line {
            text,
            missed: self.state.missed.swap(0, Ordering::Relaxed),
            printed: Some(printed),
        });
        outcome.await.map_err(|_| self.state.error())
    }
}

impl State {
    fn error(&self) -> io::Error {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.unwrap_or(io::ErrorKind::BrokenPipe).into()
    }

    fn fail(&self, error: &io::Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *failure = Some(error.kind());
        self.failed.notify_one();
    }
}

struct Printer<W> {
    out: W,
    missed: fn(u64) -> String,
    state: Arc<State>,
}

impl<W: Write> Printer<W> {
    fn run(mut self, mut queue: mpsc::Receiver<Line>) {
        while let Some(line) = queue.blocking_recv() {
            if let Err(error) = self.print(line, &queue) {
                // Before the queue is closed: whom that tells asks for the failure.
                self.state.fail(&error);
                return;
            }
        }
    }

    fn print(&mut self, line: Line, queue: &mpsc::Receiver<Line>) -> io::Result<()> {
        self.tell_of(line.missed)?;
        if line.printed.as_ref().is_none_or(|waits| !waits.is_closed()) {
            self.out.write_all(line.text.as_bytes())?;
            self.out.flush()?;
        }
        if let Some(printed) = line.printed {
            // Nobody waits: then nobody needs to know.
            let _ = printed.send(());
        }
        if queue.is_empty() {
            let missed = self.state.missed.swap(0, Ordering::Relaxed);
            self.tell_of(missed)?;
        }
        Ok(())
    }

    fn tell_of(&mut self, missed: u64) -> io::Result<()> {
        if missed == 0 {
            return Ok(());
        }
        self.out
            .write_all(ended((self.missed)(missed)).as_bytes())?;
        self.out.flush()
    }
}

/// Locked while it is written to, and not for as long as its thread lives.
struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Stands for lines that found no room.
fn missed_json(missed: u64) -> String {
    serde_json::json!({ "not_shown": missed }).to_string()
}

/// As [`missed_json`], for people.
fn missed_text(missed: u64) -> String {
    format!("({missed} lines are not shown: standard output is read too slowly)")
}

fn ended(text: impl Into<String>) -> String {
    let mut text = text.into();
    text.push('\n');
    text
}

/// With events of 1 MiB, as large as they may be, a quarter of a GiB.
const MOST_LINES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that takes as many bytes as the test lets it.
    struct Gate {
        open: std::sync::mpsc::Receiver<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.open
                .recv()
                .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            self.taken.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (Sheet, std::sync::mpsc::Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (opener, open) = std::sync::mpsc::channel();
        let taken = Arc::default();
        let gate = Gate {
            open,
            taken: Arc::clone(&taken),
        };
        let sheet = Sheet::on(gate, |missed| format!("{missed} missed")).unwrap();
        (sheet, opener, taken)
    }

    #[tokio::test]
    async fn lines_without_room_are_counted_where_they_are_missing() {
        let (sheet, opener, taken) = gated();
        let line_count = 3 * MOST_LINES;
        for n in 0..line_count {
            sheet.line(n.to_string()).unwrap();
        }
        for _ in 0..=line_count {
            opener.send(()).unwrap();
        }
        // There is room for it once the reader goes on.
        sheet.print("late").await.unwrap();

        let taken = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = taken.lines().collect();
        let [kept @ .., note, late] = lines.as_slice() else {
            panic!("{taken}");
        };
        let missed = line_count - kept.len();
        let expected: Vec<String> = (0..kept.len()).map(|n| n.to_string()).collect();
        assert_eq!(kept, expected);
        assert!(missed >= line_count - MOST_LINES - 1, "{missed}");
        assert_eq!((*note, *late), (&*format!("{missed} missed"), "late"));
    }

    #[tokio::test]
    async fn a_line_that_nobody_waits_for_any_longer_is_not_printed() {
        let (sheet, opener, taken) = gated();
        sheet.line("first").unwrap();
        let given_up = tokio::time::timeout(Duration::from_millis(10), sheet.print("given up"));
        given_up.await.unwrap_err();
        for _ in 0..3 {
            opener.send(()).unwrap();
        }
        sheet.print("last").await.unwrap();
        assert_eq!(*taken.lock().unwrap(), b"first\nlast\n");
    }

    #[tokio::test]
    async fn a_failure_ends_it_and_is_told_to_all() {
        let (sheet, opener, _) = gated();
        drop(opener);
        let error = sheet.print("lost").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        sheet.failed().await;
        for error in [
            sheet.line("more").unwrap_err(),
            sheet.finish(Duration::from_secs(1)).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
