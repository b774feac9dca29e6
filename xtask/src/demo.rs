//! The README's first command, as it stands there.

use anyhow::bail;

use crate::outcome::Outcome;
use crate::workspace::Workspace;

/// `cargo rvc demo` ends with 0 only if every event arrived, verified, in order.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let demo = workspace.cargo(["rvc", "demo", "--json"]);
    eprintln!("$ {demo}");
    let output = demo.ignore_status().output()?;
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        bail!("the demo ended with {}", output.status);
    }
    Ok(Outcome::passed())
}
