//! The tests that need `PostgreSQL`, beside a throwaway cluster.
//!
//! ```text
//! with-postgres (of rvc-test) ── starts ──► a cluster in a temporary folder
//!        └── runs ──► cargo nextest run …   finds it by RVC_TEST_POSTGRES
//! ```
//!
//! Tests that stop their server, such as the chaos, start clusters of their own.

use std::env;
use std::path::{Path, PathBuf};

use crate::outcome::Outcome;
use crate::runner::{self, Selection};
use crate::workspace::Workspace;

/// Runs the tests, where there is a server to install clusters of.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if let Some(reason) = missing(workspace) {
        return Ok(Outcome::Skipped { reason });
    }
    // `--tests`: with the tests' own dependencies and features, so that nothing is built twice.
    workspace
        .cargo(["build", "--workspace", "--all-features", "--tests"])
        .arg("--bin=with-postgres")
        .run()?;
    let outer = workspace.target.join("debug/with-postgres");
    runner::run_inside(workspace, Some(&outer), Selection::Postgres, &[])
}

/// What to do where there is no server.
pub(crate) fn missing(workspace: &Workspace) -> Option<String> {
    let path = workspace.sh.var_os("PATH").unwrap_or_default();
    let named = env::var_os("PG_BINDIR").map(PathBuf::from);
    let found = if let Some(folder) = named {
        has_server(&folder)
    } else {
        let debian = workspace.sh.read_dir("/usr/lib/postgresql");
        let mut debian = debian.into_iter().flatten();
        debian.any(|version| has_server(&version.join("bin")))
            || env::split_paths(&path).any(|folder| has_server(&folder))
    };
    (!found).then(|| {
        "PostgreSQL is missing: `apt-get install postgresql`, or PG_BINDIR=<folder of initdb>; \
         no server of it needs to run"
            .to_owned()
    })
}

fn has_server(folder: &Path) -> bool {
    folder.join("initdb").is_file()
}
