//! The systemd units that the examples ship.

use anyhow::ensure;
use xshell::cmd;

use crate::outcome::Outcome;
use crate::workspace::Workspace;

/// Has systemd itself read each unit, as it stands, with nothing installed.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if !workspace.has_program("systemd-analyze") {
        return Ok(Outcome::Skipped {
            reason: "systemd-analyze is missing: `apt-get install systemd`".to_owned(),
        });
    }
    let units = workspace.files("examples/deploy", "service")?;
    ensure!(!units.is_empty(), "examples/deploy/ has no unit");
    cmd!(workspace.sh, "systemd-analyze verify --man=no {units...}").run()?;
    Ok(Outcome::passed())
}
