use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use rvc_durable::remote::HttpDialer;
use rvc_durable::store::SqliteStore;
use rvc_durable::{Durable, SupervisorOptions};

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
        let store = SqliteStore::open(&self.file)
            .with_context(|| format!("cannot use {}", self.file.display()))?;
        Ok(Durable::new(store, HttpDialer::new()?, options))
    }

    /// Opens a database that is there: to look into a new one is a slip of the finger.
    pub(crate) fn open_existing(&self) -> anyhow::Result<Durable> {
        let file = self.file.display();
        ensure!(self.file.exists(), "there is no database {file}");
        self.open(SupervisorOptions::new())
    }
}
