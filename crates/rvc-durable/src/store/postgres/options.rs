use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresStore;
use super::database::{Clock, Database, Scope};
use super::hosts::{self, Hosts};
use super::listener::Listener;
use super::migration;
use crate::moment::Moment;
use crate::store::StoreError;
use crate::tls;

/// How a `PostgreSQL` store is opened.
#[derive(Clone)]
#[must_use]
pub struct PostgresOptions {
    config: tokio_postgres::Config,
    connections: usize,
    patience: Duration,
    clock: Option<Clock>,
    roots: Vec<CertificateDer<'static>>,
    tables: Tables,
}

/// What becomes of a database without our tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    Create,
    Expect,
}

impl PostgresOptions {
    /// Reads a URL: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require`, as libpq has
    /// it. Several hosts may be given, with `target_session_attrs=read-write`; a Unix socket is
    /// `postgres:///DATABASE?host=/var/run/postgresql`. The tables live in the first schema of
    /// the search path: `&options=-csearch_path%3Drvc` gives them one of their own.
    ///
    /// `sslmode` is `disable`, `prefer` (the default: TLS where the server has it) or `require`.
    /// Where TLS is spoken the server's certificate and name are always verified, so
    /// `verify-ca` and `verify-full` are the same as `require`. A Unix socket never speaks it.
    /// There is no `sslrootcert`, see
    /// [`root_certificates`](Self::root_certificates).
    ///
    /// The password is in no error, no log, and not in what [`Debug`](std::fmt::Debug) shows.
    ///
    /// # Errors
    ///
    /// A text that is no such URL.
    pub fn url(url: &str) -> Result<Self, StoreError> {
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(refused("the URL begins with postgres://"));
        }
        if url.contains("sslrootcert=") {
            return Err(refused(
                "sslrootcert is not read from the URL; root certificates are given apart",
            ));
        }
        let url = url
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        // What the parser found wrong may be a piece of the password.
        let config = url.parse::<tokio_postgres::Config>();
        let mut config = config.map_err(|_| not_understood())?;
        // The rest of a password with an @ in it that is not encoded.
        let named = config.get_hosts().iter().any(|host| match host {
            Host::Tcp(name) => name.contains('@'),
            Host::Unix(_) => false,
        });
        if named || config.get_dbname().is_some_and(|name| name.contains('@')) {
            return Err(not_understood());
        }
        // As libpq does: nobody listens on a Unix socket.
        let is_unix = |host: &Host| matches!(host, Host::Unix(_));
        if !config.get_hosts().is_empty() && config.get_hosts().iter().all(is_unix) {
            config.ssl_mode(SslMode::Disable);
        }
        if config.get_application_name().is_none() {
            config.application_name("rvc");
        }
        Ok(Self {
            config,
            connections: 4,
            patience: Duration::from_secs(5),
            clock: None,
            roots: Vec::new(),
            tables: Tables::Create,
        })
    }

    /// Sets the password where the URL has none.
    pub fn password(mut self, password: impl AsRef<[u8]>) -> Self {
        if self.config.get_password().is_none() {
            self.config.password(password);
        }
        self
    }

    /// Refuses a database that has no tables yet, instead of creating them.
    pub fn existing(mut self) -> Self {
        self.tables = Tables::Expect;
        self
    }

    /// Connections at most (4), besides the one that hears news. A step needs one for moments
    /// only, so a few carry many steps.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// How long an operation is tried while the server is away or somebody else holds what it
    /// needs (5 s). It ends within twice that; keep it below a third of the leases.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience.max(Duration::from_millis(10));
        self
    }

    /// Takes the time from `clock` instead of from the server. For simulations: replicas whose
    /// clocks differ take each other's leases.
    pub fn clock(mut self, clock: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Trusts the certificates of a PEM file too, besides the system's.
    ///
    /// # Errors
    ///
    /// When the text is no PEM, and when it holds no certificate.
    pub fn root_certificates(mut self, pem: &[u8]) -> Result<Self, StoreError> {
        self.roots
            .extend(tls::certificates(pem).map_err(|reason| refused(&reason))?);
        Ok(self)
    }

    /// Connects, and migrates the database where it is older.
    ///
    /// # Errors
    ///
    /// A server that cannot be reached within the [`patience`](Self::patience) or refuses the
    /// login; a database that is newer or another program's.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a migration is done or not done.
    pub async fn open(mut self) -> Result<PostgresStore, StoreError> {
        let patience = self.patience;
        // Several hosts are tried in turn, within the time of one attempt.
        let hosts = hosts::count(&self.config) + 1;
        let turn = patience / u32::try_from(hosts).unwrap_or(u32::MAX);
        let turn = self
            .config
            .get_connect_timeout()
            .map_or(turn, |it| turn.min(*it));
        // A peer that went without a word is noticed by the kernel as well.
        self.config
            .connect_timeout(turn)
            .tcp_user_timeout(patience * 2)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3);
        let tls = tls::client(self.roots).map_err(|error| refused(&error.to_string()))?;
        let tls = MakeRustlsConnect::new(tls);
        let hosts = Hosts::new(&self.config, tls, turn);
        let database = Database::new(hosts.clone(), self.connections, patience, self.clock)?;
        let current = database.run(Scope::Statement, &(), migration::is_current);
        if !current.await? {
            let migrated =
                database.run_for_long(Scope::Transaction, &self.tables, migration::migrate);
            migrated.await?;
        }
        let listener = Listener::spawn(hosts, patience);
        Ok(PostgresStore::new(database, listener))
    }
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("hosts", &self.config.get_hosts())
            .field("database", &self.config.get_dbname())
            .field("user", &self.config.get_user())
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

fn not_understood() -> StoreError {
    refused(
        "the URL is not understood: postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS, with \
         special characters percent-encoded",
    )
}

fn refused(reason: &str) -> StoreError {
    StoreError::Open {
        detail: reason.to_owned(),
    }
}
