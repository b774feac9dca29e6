//! The workspace's own commands, run as `cargo xtask <command>`.
//!
//! ```text
//! ci ──────► stages, one after the other: lock fmt edges msrv clippy … deploy
//! coverage ► cargo-tarpaulin, fails under 80 %
//! hooks ───► .git/hooks/pre-commit, which runs the quick stages
//! bench ───► rvc-bench in release
//! soak ────► an hour of chaos, then the long tests, again and again
//! ```
//!
//! `cargo xtask ci` is the release gate, and it is all that CI runs. The stages
//! are listed in `gate.rs`; each is a small file that decides with plain
//! functions and leaves the work to `cargo` and other programs.

mod bench;
mod builds;
mod ci;
mod coverage;
mod demo;
mod deny;
mod deploy;
mod edges;
mod features;
mod gate;
mod hooks;
mod interop;
mod metadata;
mod msrv;
mod no_std;
mod outcome;
mod postgres;
mod report;
mod runner;
mod soak;
mod tools;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// The workspace's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the release gate, or only the named stages of it.
    Ci(ci::Args),
    /// Measure test coverage; fails under 80 %.
    Coverage(coverage::Args),
    /// Install the git hook that runs the quick stages before a commit.
    Hooks,
    /// Measure the crates beside their limits, in release.
    Bench(bench::Args),
    /// Run the soak tests (ignored elsewhere) many times over.
    Soak(soak::Args),
}

fn main() -> ExitCode {
    run(&Cli::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::open()?;
    match &cli.command {
        Command::Ci(args) => return ci::run(&workspace, args),
        Command::Coverage(args) => coverage::run(&workspace, args)?,
        Command::Hooks => hooks::install(&workspace)?,
        Command::Bench(args) => bench::run(&workspace, args)?,
        Command::Soak(args) => soak::run(&workspace, args)?,
    }
    Ok(ExitCode::SUCCESS)
}
