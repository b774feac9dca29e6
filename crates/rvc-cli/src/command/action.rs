mod answer;
mod cancel;
mod list;
mod report;
mod show;
mod start;

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use rvc_durable::ActionId;

pub(crate) use self::report::{Form, JSON_HELP, Report};
use crate::output::printable;

/// Starts tool calls whose outcome survives any crash, and looks after them
#[derive(Subcommand)]
#[command(after_long_help = JSON_HELP)]
pub(crate) enum Command {
    Start(Box<start::Start>),
    List(list::List),
    Show(show::Show),
    Cancel(cancel::Cancel),
    Answer(answer::Answer),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
        runtime.block_on(async {
            match self {
                Self::Start(start) => start.run().await,
                Self::List(list) => list.run().await,
                Self::Show(show) => show.run().await,
                Self::Cancel(cancel) => cancel.run().await,
                Self::Answer(answer) => answer.run().await,
            }
        })
    }
}

/// Says that there is no such action.
fn missing(action: &ActionId) -> ExitCode {
    eprintln!("there is no action {}", printable(action.as_str()));
    ExitCode::FAILURE
}
