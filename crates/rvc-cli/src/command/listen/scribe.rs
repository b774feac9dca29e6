use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::command::listen::recorder::Recorder;
use crate::command::listen::report::Report;
use crate::sheet::Sheet;
use crate::style::Style;

/// How reports are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Json,
    Text(Style),
}

/// Writes reports to the record and to standard output, one after the other.
pub(crate) struct Scribe {
    form: Form,
    recorder: Option<Recorder>,
    sheet: Arc<Sheet>,
}

impl Scribe {
    pub(crate) fn open(form: Form, record: Option<&Path>) -> anyhow::Result<Self> {
        let sheet = Arc::new(Sheet::start(matches!(form, Form::Json))?);
        let start = |path| Recorder::start(path, Arc::clone(&sheet));
        Ok(Self {
            form,
            recorder: record.map(start).transpose()?,
            sheet,
        })
    }

    /// Keeps one report: in the record, or, without one, on standard output.
    ///
    /// # Errors
    ///
    /// When it is not there within two seconds: then its event must not be acknowledged.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the report is not written, unless that had begun.
    pub(crate) async fn keep(&self, report: &Report<'_>) -> io::Result<()> {
        let shown = self.shown(report);
        let kept = async {
            match &self.recorder {
                Some(recorder) => recorder.write(report.to_json().to_string(), shown).await,
                None => self.sheet.print(shown).await,
            }
        };
        let late = || match self.recorder {
            Some(_) => "the record is written too slowly",
            None => "standard output is read too slowly",
        };
        timeout(PATIENCE, kept)
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, late()))?
    }

    /// Writes a report that nobody waits for.
    pub(crate) fn note(&self, report: &Report<'_>) {
        let shown = self.shown(report);
        match &self.recorder {
            Some(recorder) => recorder.note(report.to_json().to_string(), shown),
            // The sheet keeps its own trouble.
            None => drop(self.sheet.line(shown)),
        }
    }

    /// Waits until a line could not be printed.
    pub(crate) async fn failed(&self) {
        self.sheet.failed().await;
    }

    /// Writes what is left, for as long as a process that was told to end may still take.
    ///
    /// # Errors
    ///
    /// When a line was not printed.
    pub(crate) async fn finish(&self) -> io::Result<()> {
        if let Some(recorder) = &self.recorder
            && timeout(LAST_LINES, recorder.finish()).await.is_err()
        {
            tracing::error!("the last lines are not in the record: it is written too slowly");
        }
        match self.sheet.finish(LAST_LINES).await {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                // Whatever was acknowledged was printed, or is in the record.
                tracing::warn!("the last lines are not printed: nobody reads standard output");
                Ok(())
            }
            printed => printed,
        }
    }

    fn shown(&self, report: &Report<'_>) -> String {
        match self.form {
            Form::Json => report.to_json().to_string(),
            Form::Text(style) => report.to_text(style),
        }
    }
}

/// A sender waits for some 10 s, and a receiver that ends for 5 s.
const PATIENCE: Duration = Duration::from_secs(2);

const LAST_LINES: Duration = Duration::from_secs(1);
