//! Measures the crates beside their limits.

use crate::workspace::Workspace;

/// The arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on to rvc-bench.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs rvc-bench in release; it prints one JSON line for each measurement.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    workspace
        .cargo(["run", "--release", "--package=rvc-bench", "--"])
        .args(&args.rest)
        .run()?;
    Ok(())
}
