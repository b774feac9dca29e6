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
mod redaction;
mod secret_source;
mod sheet;
mod stop;
mod style;
mod supervision;
mod tokens;

use std::borrow::Cow;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| misused(&error));
    match cli.run() {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// Says what is wrong with the command line, which may carry a password in a wrong place.
fn misused(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    match redaction::redacted(&text) {
        // A help text is an error to clap, and goes to standard output.
        Cow::Owned(shown) if error.use_stderr() => {
            eprint!("{shown}");
            std::process::exit(error.exit_code())
        }
        _ => error.exit(),
    }
}

/// As clap has it for wrong usage.
const FAILED: u8 = 2;

/// What a shell reports of a program that SIGPIPE ended.
const BROKEN_PIPE: u8 = 141;
