use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rvc_mcp::logging::{self, LogFormat};

use crate::command;

/// Sees, checks and shows the events of the Async Task Contract, and keeps remote tool calls.
///
/// Results go to standard output, log lines and hints to standard error.
#[derive(Parser)]
#[command(name = "rvc", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,

    /// How log lines look, json (the default) or pretty; RUST_LOG says what is logged
    #[arg(long, global = true, display_order = 900, value_name = "FORMAT")]
    log: Option<LogFormat>,
}

#[derive(Subcommand)]
enum Command {
    Demo(command::demo::Demo),
    Sign(command::sign::Sign),
    Verify(command::verify::Verify),
    #[command(subcommand)]
    Event(command::event::Event),
    Listen(command::listen::Listen),
    #[command(subcommand)]
    Registration(command::registration::Command),
    #[command(subcommand)]
    Action(command::action::Command),
    Supervise(command::supervise::Supervise),
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        // These are for people to look at, so they log only for those who ask.
        let is_quiet = matches!(
            self.command,
            Command::Demo(_) | Command::Registration(_) | Command::Action(_)
        );
        let directives = std::env::var_os("RUST_LOG").unwrap_or_default();
        let is_asked = self.log.is_some() || !directives.is_empty();
        if is_asked || !is_quiet {
            logging::init(self.log.unwrap_or_default())?;
        }
        match self.command {
            Command::Demo(demo) => demo.run(),
            Command::Sign(sign) => sign.run(),
            Command::Verify(verify) => verify.run(),
            Command::Event(event) => event.run(),
            Command::Listen(listen) => listen.run(),
            Command::Registration(registration) => registration.run(),
            Command::Action(action) => action.run(),
            Command::Supervise(supervise) => supervise.run(),
        }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done; for verify and event check: accepted
  1    the answer is no: refused, not there, not every event arrived, or no success
  2    wrong usage, or the command could not be carried out
  141  whoever read standard output went away";
