//! Licences, banned crates and sources; and known vulnerabilities.

use crate::outcome::Outcome;
use crate::tools::DENY;
use crate::workspace::Workspace;

/// Who depends on a crate fills screens, for warnings too; `cargo tree` in the
/// advice shows it when it matters.
const HIDE_GRAPH: &str = "--hide-inclusion-graph";

/// What `deny.toml` allows and bans.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if let Err(error) = DENY.ensure(workspace) {
        return Ok(Outcome::Skipped {
            reason: error.to_string(),
        });
    }
    workspace
        .cargo(["deny", "check", HIDE_GRAPH, "bans", "licenses", "sources"])
        .run()?;
    Ok(Outcome::passed())
}

/// Known vulnerabilities, where their database can be reached.
pub(crate) fn advisories(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if let Err(error) = DENY.ensure(workspace) {
        return Ok(Outcome::Skipped {
            reason: error.to_string(),
        });
    }
    // An old database on this machine would do for the check and hide the news.
    if workspace.cargo(["deny", "fetch", "db"]).run().is_err() {
        return Ok(Outcome::Excused {
            reason: "the advisory database cannot be reached".to_owned(),
        });
    }
    workspace
        .cargo(["deny", "--offline", "check", HIDE_GRAPH, "advisories"])
        .run()?;
    Ok(Outcome::passed())
}
