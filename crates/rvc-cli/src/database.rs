use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use rvc_durable::remote::HttpDialer;
use rvc_durable::store::SqliteOptions;
use rvc_durable::{Durable, SupervisorOptions};

use crate::tokens::Tokens;

/// The database that actions and registrations are kept in.
#[derive(Args)]
pub(crate) struct Database {
    /// The database, a file on a local disk; several processes may use it at once
    #[arg(long = "db", value_name = "FILE")]
    file: PathBuf,
}

impl Database {
    /// Opens the database, and creates it where there is none.
    pub(crate) fn open(&self, options: SupervisorOptions) -> anyhow::Result<Durable> {
        self.open_with(options, Tokens::default())
    }

    /// The same for whoever speaks to servers, with their tokens.
    pub(crate) fn open_with(
        &self,
        options: SupervisorOptions,
        tokens: Tokens,
    ) -> anyhow::Result<Durable> {
        let file = SqliteOptions::file(&self.file);
        #[cfg(feature = "crash-points")]
        let file = crate::crash_point::shifted(file)?;
        let store = file
            .open()
            .with_context(|| format!("cannot use {}", self.file.display()))?;
        let dialer = HttpDialer::builder().tokens(Arc::new(tokens)).build()?;
        Ok(Durable::new(store, dialer, options))
    }

    /// Opens a database that is there: to look into a new one is a slip of the finger.
    pub(crate) fn open_existing(&self) -> anyhow::Result<Durable> {
        let file = self.file.display();
        ensure!(self.file.exists(), "there is no database {file}");
        self.open(SupervisorOptions::new())
    }
}
