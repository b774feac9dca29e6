use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

use crate::command::listen::record::Record;
use crate::command::listen::report::Report;
use crate::output::Sheet;
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
    record: Mutex<Option<Record<File>>>,
    sheet: Sheet,
}

impl Scribe {
    pub(crate) fn open(form: Form, record: Option<&Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            Record::open(path).with_context(|| format!("cannot open {}", path.display()))
        };
        Ok(Self {
            form,
            record: Mutex::new(record.map(open).transpose()?),
            sheet: Sheet::default(),
        })
    }

    /// Writes one report, the record first.
    ///
    /// # Errors
    ///
    /// When it is not in both: then its event must not be acknowledged.
    pub(crate) fn write(&self, report: &Report<'_>) -> io::Result<()> {
        // One lock over both, so that both have the same order.
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(record) = record.as_mut() {
            let line = report.to_json().to_string();
            record.append(&line).inspect_err(|error| {
                tracing::error!(%error, "cannot write the record");
            })?;
        }
        self.sheet.line(match self.form {
            Form::Json => report.to_json().to_string(),
            Form::Text(style) => report.to_text(style),
        })
    }

    /// Where it prints.
    pub(crate) fn sheet(&self) -> &Sheet {
        &self.sheet
    }
}
