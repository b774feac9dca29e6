use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use rvc_durable::{Durable, Endpoint, OwnerId, Registration, RegistrationId, TransportKind};

use crate::database::Database;
use crate::output::{self, printable};

/// Keeps the servers that actions may use
///
/// An action names a registration, not a URL: at each of its steps the registration's current
/// state decides. A new endpoint is used from then on; where it was disabled or removed, open
/// actions fail with REGISTRATION_REVOKED and nothing is sent.
#[derive(Subcommand)]
#[command(after_long_help = JSON_HELP)]
pub(crate) enum Command {
    Add(Add),
    List(List),
    /// Disables a server: its open actions fail, and nothing is sent to it
    Disable(Named),
    /// Enables a server that was disabled
    Enable(Named),
    /// Removes a server: its open actions fail, and nothing is sent to it
    Remove(Named),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
        runtime.block_on(async {
            match self {
                Self::Add(add) => add.run().await,
                Self::List(list) => list.run().await,
                Self::Disable(named) => named.enable(false).await,
                Self::Enable(named) => named.enable(true).await,
                Self::Remove(named) => named.remove().await,
            }
        })
    }
}

/// Adds a server, or gives one that is there a new endpoint
///
/// One that is disabled stays so.
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct Add {
    #[command(flatten)]
    database: Database,

    /// What actions call it
    name: RegistrationId,

    /// Where it is: http or https, without credentials
    #[arg(long)]
    // Not parsed by clap, whose errors repeat the value.
    url: String,

    /// How it is spoken to, streamable-http or sse
    #[arg(long, default_value = "streamable-http")]
    transport: TransportKind,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Add {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let endpoint: Endpoint = self.url.parse().context("--url is refused")?;
        let durable = self.database.open().await?;
        let registration = Registration {
            id: self.name,
            owner: OwnerId::local(),
            endpoint,
            transport: self.transport,
            // Where it is new.
            enabled: true,
        };
        durable.put_registration(registration.clone()).await?;
        let kept = find(&durable, &registration.id).await?;
        print(&kept.unwrap_or(registration), self.json)
    }
}

/// Lists the servers
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct List {
    #[command(flatten)]
    database: Database,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl List {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let durable = self.database.open_existing().await?;
        for registration in durable.registrations(None).await? {
            print(&registration, self.json)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct Named {
    #[command(flatten)]
    database: Database,

    /// What actions call it
    name: RegistrationId,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Named {
    async fn enable(self, enabled: bool) -> anyhow::Result<ExitCode> {
        let durable = self.database.open_existing().await?;
        durable.enable_registration(&self.name, enabled).await?;
        match find(&durable, &self.name).await? {
            Some(registration) => print(&registration, self.json),
            None => Ok(missing(&self.name)),
        }
    }

    async fn remove(self) -> anyhow::Result<ExitCode> {
        let durable = self.database.open_existing().await?;
        let registration = find(&durable, &self.name).await?;
        durable.remove_registration(&self.name).await?;
        match registration {
            Some(registration) => print(&registration, self.json),
            None => Ok(missing(&self.name)),
        }
    }
}

/// Says that there is no such registration.
pub(crate) fn missing(name: &RegistrationId) -> ExitCode {
    eprintln!("there is no registration {}", printable(name.as_str()));
    ExitCode::FAILURE
}

/// The registration of a name, whoever owns it.
pub(crate) async fn find(
    durable: &Durable,
    name: &RegistrationId,
) -> anyhow::Result<Option<Registration>> {
    let all = durable.registrations(None).await?;
    Ok(all
        .into_iter()
        .find(|registration| registration.id == *name))
}

fn print(registration: &Registration, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        output::line(serde_json::to_string(registration)?)?;
    } else {
        let state = if registration.enabled {
            "enabled"
        } else {
            "disabled"
        };
        output::line(format!(
            "{}  {state}  {}  {}",
            printable(registration.id.as_str()),
            registration.transport.as_str(),
            registration.endpoint
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

const JSON_HELP: &str = r#"JSON (--json), one object for each registration:
  {"id": "robot",                                 what actions call it
   "owner": "local",
   "endpoint": "http://127.0.0.1:9100/mcp",
   "transport": "streamable-http",                or "sse"
   "enabled": true}

Exit codes: 0 done; 1 there is no such registration; 2 refused, or it could not be carried out"#;
