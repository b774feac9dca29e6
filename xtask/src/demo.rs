//! The README's first command, as it stands there, and the durable one.

use anyhow::bail;

use crate::outcome::Outcome;
use crate::workspace::Workspace;

/// `cargo rvc demo` ends with 0 only if every event arrived, verified, in order; with `--durable`,
/// if the action that outlived its process has its one outcome.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    perform(workspace, &[])?;
    perform(workspace, &["--durable"])?;
    Ok(Outcome::passed())
}

fn perform(workspace: &Workspace, flags: &[&str]) -> anyhow::Result<()> {
    let demo = workspace.cargo(["rvc", "demo", "--json"]).args(flags);
    eprintln!("$ {demo}");
    let output = demo.ignore_status().output()?;
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        bail!("the demo ended with {}", output.status);
    }
    Ok(())
}
