use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use tokio::sync::Notify;

use crate::command::listen::report::Report;
use crate::output;
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
    record: Mutex<Option<File>>,
    unprinted: Mutex<Option<io::Error>>,
    broken: Notify,
}

impl Scribe {
    pub(crate) fn open(form: Form, record: Option<&Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .with_context(|| format!("cannot open {}", path.display()))
        };
        Ok(Self {
            form,
            record: Mutex::new(record.map(open).transpose()?),
            unprinted: Mutex::new(None),
            broken: Notify::new(),
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
        if let Some(file) = record.as_mut() {
            // One write, so that a reader never sees half a line while the disk has room.
            let line = format!("{}\n", report.to_json());
            file.write_all(line.as_bytes()).inspect_err(|error| {
                tracing::error!(%error, "cannot write the record");
            })?;
        }
        let printed = output::line(match self.form {
            Form::Json => report.to_json().to_string(),
            Form::Text(style) => report.to_text(style),
        });
        printed.inspect_err(|error| {
            let mut unprinted = self
                .unprinted
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            unprinted.get_or_insert_with(|| error.kind().into());
            self.broken.notify_one();
        })
    }

    /// Waits until standard output is broken.
    pub(crate) async fn broken(&self) {
        self.broken.notified().await;
    }

    /// The error that broke standard output, if one did.
    pub(crate) fn outcome(&self) -> anyhow::Result<()> {
        let mut unprinted = self
            .unprinted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match unprinted.take() {
            Some(error) => Err(error).context("cannot print"),
            None => Ok(()),
        }
    }
}
