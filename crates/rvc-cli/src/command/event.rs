mod check;

use std::process::ExitCode;

use clap::Subcommand;

/// Looks at events
#[derive(Subcommand)]
pub(crate) enum Event {
    Check(check::Check),
}

impl Event {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Check(check) => check.run(),
        }
    }
}
