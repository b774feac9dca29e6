use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use rvc_durable::remote::HttpDialer;
use rvc_durable::store::{PostgresOptions, PostgresStore, SqliteOptions};
use rvc_durable::{Durable, SupervisorOptions};

use crate::supervision::Supervision;

/// The database that actions and registrations are kept in.
#[derive(Args)]
pub(crate) struct Database {
    /// The database: a file on a local disk, which several processes may use at once, or
    /// postgres://USER@HOST/NAME, which several machines may
    ///
    /// The server's certificate is verified wherever TLS is spoken; ?sslmode=require insists on
    /// TLS. A command line can be read by everybody on the machine: give a password in
    /// RVC_DATABASE_URL or PGPASSWORD.
    #[arg(
        long = "db",
        value_name = "FILE|URL",
        env = "RVC_DATABASE_URL",
        hide_env_values = true,
        value_parser = OsStringValueParser::new().try_map(place),
    )]
    place: Place,

    /// PEM file of root certificates to trust for a postgres:// database, besides the system's
    #[arg(
        long = "db-root-certificates",
        value_name = "FILE",
        env = "RVC_DATABASE_ROOT_CERTIFICATES",
        value_parser = OsStringValueParser::new().map(PathBuf::from),
    )]
    // Empty when the variable is, which counts as unset.
    root_certificates: Option<PathBuf>,
}

/// Where a database is. Not `Debug`: a URL may carry a password.
#[derive(Clone)]
enum Place {
    File(PathBuf),
    Server(String),
    /// Of a kind that is not known here. As a file it would be named, password and all.
    Elsewhere,
}

impl Database {
    /// Opens the database, and creates it where there is none.
    pub(crate) async fn open(&self) -> anyhow::Result<Durable> {
        self.open_with(SupervisorOptions::new(), HttpDialer::new()?, |server| {
            server
        })
        .await
    }

    /// The same for whoever supervises.
    pub(crate) async fn open_for(&self, supervision: &Supervision) -> anyhow::Result<Durable> {
        // Where the database is away for longer than this, a step has lost its lease.
        let patience = (supervision.lease() / 4).clamp(SHORTEST_PATIENCE, LONGEST_PATIENCE);
        let (options, dialer) = (supervision.options()?, supervision.dialer()?);
        self.open_with(options, dialer, |server| server.patience(patience))
            .await
    }

    /// Opens a database that is there: to look into a new one is a slip of the finger.
    pub(crate) async fn open_existing(&self) -> anyhow::Result<Durable> {
        if let Place::File(file) = &self.place {
            ensure!(file.exists(), "there is no database {}", file.display());
        }
        let options = SupervisorOptions::new();
        self.open_with(options, HttpDialer::new()?, PostgresOptions::existing)
            .await
    }

    async fn open_with(
        &self,
        options: SupervisorOptions,
        dialer: HttpDialer,
        set: impl FnOnce(PostgresOptions) -> PostgresOptions,
    ) -> anyhow::Result<Durable> {
        match &self.place {
            Place::File(file) => {
                // Whoever gives them expects a server, and TLS.
                ensure!(
                    self.root_certificates().is_none(),
                    "--db-root-certificates (RVC_DATABASE_ROOT_CERTIFICATES) is for a postgres:// \
                     database, not for the file {}",
                    file.display()
                );
                let store = SqliteOptions::file(file);
                #[cfg(feature = "crash-points")]
                let store = crate::crash_point::shifted(store)?;
                let store = store
                    .open()
                    .with_context(|| format!("cannot use {}", file.display()))?;
                Ok(Durable::new(store, dialer, options))
            }
            Place::Server(url) => {
                let store = self.connect(set(PostgresOptions::url(url)?)).await?;
                Ok(Durable::new(store, dialer, options))
            }
            // Says nothing of the URL, which may carry a password.
            Place::Elsewhere => {
                bail!("a database is a file, or a URL that begins with postgres://")
            }
        }
    }

    async fn connect(&self, mut options: PostgresOptions) -> anyhow::Result<PostgresStore> {
        let password = std::env::var_os("PGPASSWORD").unwrap_or_default();
        if !password.is_empty() {
            options = options.password(password.as_encoded_bytes());
        }
        if let Some(file) = self.root_certificates() {
            let read = || format!("cannot use {}", file.display());
            let pem = std::fs::read(file).with_context(read)?;
            options = options.root_certificates(&pem).with_context(read)?;
        }
        options.open().await.context("cannot use the database")
    }

    fn root_certificates(&self) -> Option<&Path> {
        let file = self.root_certificates.as_deref();
        file.filter(|file| !file.as_os_str().is_empty())
    }
}

const SHORTEST_PATIENCE: Duration = Duration::from_secs(1);

const LONGEST_PATIENCE: Duration = Duration::from_secs(5);

/// Whether a text without `://` is a URL with a slip in it: it has the scheme, or what looks like
/// a user and a password.
fn is_meant_as_a_url(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let schemes = ["postgres:", "postgresql:", "postgres//", "postgresql//"];
    let user = text.split_once('@').map(|(user, _)| user);
    schemes.iter().any(|scheme| lower.starts_with(scheme))
        || user.is_some_and(|user| user.contains(':'))
}

fn place(text: OsString) -> Result<Place, &'static str> {
    if text.is_empty() {
        return Err("no database is named");
    }
    let url = text.to_str().map(str::trim);
    Ok(match url.and_then(|url| url.split_once("://")) {
        None if url.is_some_and(is_meant_as_a_url) => Place::Elsewhere,
        None => Place::File(text.into()),
        Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
            "postgres" | "postgresql" => Place::Server(format!("postgres://{rest}")),
            _ => Place::Elsewhere,
        },
    })
}
