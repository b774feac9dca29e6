use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use tokio::sync::{mpsc, oneshot};

use crate::command::listen::record::{Record, Tail};
use crate::sheet::Sheet;

/// Writes the record by a thread of its own, and shows what it wrote: so both have the same order,
/// and nothing is shown that is not recorded.
pub(crate) struct Recorder(mpsc::Sender<Entry>);

struct Entry {
    /// None where it is only a question whether all before it is written.
    line: Option<Line>,
    /// Whoever waits for it. When nobody does any longer, it is not written.
    written: Option<oneshot::Sender<io::Result<()>>>,
}

struct Line {
    recorded: String,
    shown: String,
}

impl Recorder {
    pub(crate) fn start(path: &Path, sheet: Arc<Sheet>) -> anyhow::Result<Self> {
        let record =
            Record::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let (entries, queue) = mpsc::channel(MOST_ENTRIES);
        thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || run(record, queue, &sheet))
            .context("cannot start")?;
        Ok(Self(entries))
    }

    /// Writes one line when its turn comes, and logs if it cannot.
    pub(crate) fn note(&self, recorded: String, shown: String) {
        let line = Some(Line { recorded, shown });
        let written = None;
        if self.0.try_send(Entry { line, written }).is_err() {
            tracing::error!("a line is not in the record: it is written too slowly");
        }
    }

    /// Writes one line, and waits until it is written.
    ///
    /// # Errors
    ///
    /// When it is not.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the line is not written, unless that had begun.
    pub(crate) async fn write(&self, recorded: String, shown: String) -> io::Result<()> {
        self.send(Some(Line { recorded, shown })).await
    }

    /// Waits until every line so far is written, or is not.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub(crate) async fn finish(&self) {
        // Each line has told or logged its own trouble.
        let _ = self.send(None).await;
    }

    async fn send(&self, line: Option<Line>) -> io::Result<()> {
        let (written, outcome) = oneshot::channel();
        let written = Some(written);
        let sent = self.0.send(Entry { line, written }).await;
        sent.map_err(gone)?;
        outcome.await.map_err(gone)?
    }
}

fn gone<E>(_: E) -> io::Error {
    io::Error::other("the recorder is gone")
}

fn run(mut record: Record<impl Tail>, mut queue: mpsc::Receiver<Entry>, sheet: &Sheet) {
    while let Some(Entry { line, written }) = queue.blocking_recv() {
        if written.as_ref().is_some_and(oneshot::Sender::is_closed) {
            continue;
        }
        let outcome = line.map_or(Ok(()), |line| {
            record.append(&line.recorded)?;
            // The sheet keeps its own trouble.
            let _ = sheet.line(line.shown);
            Ok(())
        });
        if let Err(error) = &outcome {
            tracing::error!(%error, "cannot write the record");
        }
        if let Some(written) = written {
            // Nobody waits: then nobody needs to know.
            let _ = written.send(outcome);
        }
    }
}

/// With events of 1 MiB, as large as they may be, a quarter of a GiB.
const MOST_ENTRIES: usize = 256;
