//! Runs the gate's stages, times them and reports.

use std::process::ExitCode;
use std::time::Instant;

use crate::gate::{STAGES, select};
use crate::outcome::Outcome;
use crate::report::{Entry, failed, report};
use crate::workspace::Workspace;

/// The arguments of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The stages to run; all of them if none is named.
    #[arg(value_name = "STAGE")]
    stages: Vec<String>,
    /// List the stages and run none.
    #[arg(long)]
    list: bool,
    /// Stop at the first stage that fails.
    #[arg(long)]
    fail_fast: bool,
}

/// Runs the selected stages and reports on all that ran.
///
/// # Errors
/// When there is no stage of some name.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let stages = select(&args.stages)?;
    if args.list {
        for stage in STAGES {
            println!("{:<12}{}", stage.name, stage.checks);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut entries = Vec::new();
    for stage in stages {
        eprintln!("\n── {}: {}", stage.name, stage.checks);
        let start = Instant::now();
        let outcome =
            (stage.run)(workspace).unwrap_or_else(|error| Outcome::failed(format!("{error:#}")));
        let took = start.elapsed();
        eprintln!(
            "── {}: {} in {:.1} s",
            stage.name,
            outcome.word(workspace.place),
            took.as_secs_f64()
        );
        let stop = args.fail_fast && outcome.fails_the_gate(workspace.place);
        entries.push(Entry {
            stage,
            took,
            outcome,
        });
        if stop {
            break;
        }
    }
    eprint!("{}", report(&entries, workspace.place));
    Ok(if failed(&entries, workspace.place).is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
