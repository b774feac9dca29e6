//! How much of the crates the tests reach.

use crate::tools::TARPAULIN;
use crate::workspace::Workspace;

/// The arguments of `cargo xtask coverage`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on to cargo-tarpaulin, such as `--out html`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// The least share of lines, in per cent, that the tests must reach.
const LEAST: &str = "80";

/// The kill harness is left out: its hundreds of processes leave a profile each, which take
/// longer to read than all the rest, and reach nothing that others do not.
const HARNESS: &str = "kill::";

/// How long a test program may take, in seconds.
const PATIENCE: &str = "1200";

/// What only this workspace runs is not measured.
const EXCLUDED: &[&str] = &["xtask", "rvc-bench", "rvc-examples", "rvc-test"];

/// Runs the tests under cargo-tarpaulin, instrumented by the compiler: the other way, breakpoints,
/// ends tests of many threads with a segmentation fault.
///
/// # Errors
/// When a test fails, or coverage is too low.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    TARPAULIN.ensure(workspace)?;
    let excluded = EXCLUDED.iter().flat_map(|name| ["--exclude", name]);
    workspace
        .cargo(["tarpaulin", "--workspace", "--all-features"])
        .args([
            "--engine",
            "llvm",
            "--timeout",
            PATIENCE,
            "--fail-under",
            LEAST,
        ])
        .args(["--skip-clean", "--target-dir"])
        .arg(workspace.target.join("tarpaulin"))
        .args(excluded)
        .args(&args.rest)
        .args(["--", "--skip", HARNESS])
        .run()?;
    Ok(())
}
