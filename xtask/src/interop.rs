//! Peers in other languages, each from its own virtual environment.
//!
//! ```text
//! examples/interop/<name>.txt ─► target/interop/<name>  (venv, pip)
//! cargo build --release ───────► target/release/examples/<server>
//!                         tests ─┴─► the ignored tests of the binary `interop`
//! ```

use std::path::Path;

use anyhow::{Context, ensure};
use xshell::cmd;

use crate::outcome::Outcome;
use crate::runner::{self, Selection};
use crate::workspace::Workspace;

/// Makes what the tests need, then runs them.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if let Some(reason) = missing_python(workspace) {
        return Ok(Outcome::Skipped { reason });
    }
    let home = workspace.target.join("interop");
    let wanted = workspace.files("examples/interop", "txt")?;
    ensure!(!wanted.is_empty(), "examples/interop/ has no requirements");
    for file in wanted {
        make_environment(workspace, &home, &file)?;
    }
    // Two builds, so that `rvc` is what `cargo rvc` makes of it, whatever the
    // examples' own dependencies bring in. While they bring in nothing, both
    // share their dependencies.
    workspace
        .cargo(["build", "--release", "--package=rvc-cli"])
        .run()?;
    workspace
        .cargo(["build", "--release", "--package=rvc-examples", "--examples"])
        .run()?;
    let release = workspace.target.join("release");
    runner::run(
        workspace,
        Selection::Interop,
        &[("RVC_INTEROP_VENVS", &home), ("RVC_RELEASE_DIR", &release)],
    )
}

fn missing_python(workspace: &Workspace) -> Option<String> {
    let sh = &workspace.sh;
    let check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
    let found = cmd!(sh, "python3 -c {check}")
        .quiet()
        .ignore_stderr()
        .run()
        .is_ok();
    (!found).then(|| {
        "python3 (3.11 or newer) with venv is missing: `apt-get install python3-venv`".to_owned()
    })
}

/// Keeps an environment that was made from the same requirements.
///
/// The copy of them is its last file: one that pip did not finish has none.
fn make_environment(workspace: &Workspace, home: &Path, file: &Path) -> anyhow::Result<()> {
    let sh = &workspace.sh;
    let name = file.file_stem().context("requirements have a name")?;
    let environment = home.join(name);
    let made_from = environment.join("requirements.txt");
    let wanted = sh.read_file(file)?;
    if sh.path_exists(&made_from) && sh.read_file(&made_from)? == wanted {
        return Ok(());
    }
    cmd!(sh, "python3 -m venv --clear {environment}").run()?;
    let python = environment.join("bin/python");
    cmd!(
        sh,
        "{python} -m pip install --quiet --disable-pip-version-check --requirement {file}"
    )
    .run()?;
    sh.write_file(&made_from, wanted)?;
    Ok(())
}
