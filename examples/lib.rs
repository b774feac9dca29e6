//! What the example programs share: their flags and how they end.
//!
//! The programs are beside this file. Read them in this order: `quickstart`, `sleeper`,
//! `navigator`, `watcher`, then `brain`, the other side.

use std::process::ExitCode;

use rvc_mcp::logging::{self, LogFormat};
use rvc_mcp::{ConfigError, ServeConfig, Transport};

/// A capability server on the Async Task Contract. A flag goes before its environment variable.
#[derive(Debug, clap::Parser)]
pub struct ServerFlags {
    /// How MCP travels: stdio, streamable-http or sse (else `MCP_TRANSPORT`)
    #[arg(long)]
    pub transport: Option<Transport>,

    /// The address to listen on (else `MCP_HOST`)
    #[arg(long)]
    pub host: Option<String>,

    /// The port to listen on (else `MCP_PORT`)
    #[arg(long)]
    pub port: Option<u16>,

    /// How the log is written: json or pretty
    #[arg(long, default_value = "json")]
    pub log: LogFormat,
}

impl ServerFlags {
    /// The environment's configuration, with these flags over it.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names what holds something else than it should.
    pub fn serve_config(&self) -> Result<ServeConfig, ConfigError> {
        let mut config = ServeConfig::from_env()?;
        if let Some(transport) = self.transport {
            config = config.with_transport(transport);
        }
        if let Some(host) = &self.host {
            config = config.with_host(host)?;
        }
        if let Some(port) = self.port {
            config = config.with_port(port);
        }
        Ok(config)
    }
}

/// Has TLS use ring, where a client is built with it. A choice that was made before stands.
pub fn choose_cryptography() {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}

/// Starts the log on standard error, runs the program, and logs why it failed if it did.
///
/// # Cancel safety
///
/// That of `program`.
pub async fn run(log: LogFormat, program: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    choose_cryptography();
    if let Err(error) = logging::init(log) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    match program.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "failed");
            ExitCode::FAILURE
        }
    }
}
