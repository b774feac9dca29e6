//! `rvc`: sees, checks and shows the events of the Async Task Contract, and keeps remote tool
//! calls.

#![expect(
    clippy::doc_markdown,
    reason = "the doc comments of commands and arguments are their help texts"
)]

mod cli;
mod command;
#[cfg(feature = "crash-points")]
mod crash_point;
mod database;
mod duration;
mod input;
mod output;
mod progress;
mod secret_source;
mod sheet;
mod stop;
mod style;
mod supervision;
mod tokens;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.run() {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// As clap has it for wrong usage.
const FAILED: u8 = 2;

/// What a shell reports of a program that SIGPIPE ended.
const BROKEN_PIPE: u8 = 141;
