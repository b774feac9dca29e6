//! Peers in other languages, each from its own virtual environment.
//!
//! ```text
//! examples/interop/<name>.txt ───► target/interop/<name>  (venv, pip)
//! examples/interop/package.json ─► target/interop/node    (npm)
//! cargo build --release ─────────► target/release/examples/<server>
//!                          tests ─┴─► the ignored tests of the binary `interop`, and of
//!                                     rvc-durable's with FastMCP
//! ```

use std::path::Path;

use anyhow::{Context, ensure};
use xshell::cmd;

use crate::outcome::Outcome;
use crate::runner::{self, Selection};
use crate::workspace::Workspace;

/// The examples that the peers talk to.
const SERVERS: [&str; 3] = ["sleeper", "navigator", "conformance"];

/// Makes what the tests need, then runs them.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if let Some(reason) = missing_python(workspace).or_else(|| missing_npm(workspace)) {
        return Ok(Outcome::Skipped { reason });
    }
    let home = workspace.target.join("interop");
    let wanted = workspace.files("examples/interop", "txt")?;
    ensure!(!wanted.is_empty(), "examples/interop/ has no requirements");
    for file in wanted {
        make_environment(workspace, &home, &file)?;
    }
    let node = home.join("node");
    install_packages(workspace, &node)?;
    // Two builds, so that `rvc` is what `cargo rvc` makes of it, whatever the
    // examples' own dependencies bring in. While they bring in nothing, both
    // share their dependencies.
    workspace
        .cargo(["build", "--release", "--package=rvc-cli"])
        .run()?;
    workspace
        .cargo(["build", "--release", "--package=rvc-examples"])
        .args(SERVERS.map(|name| format!("--example={name}")))
        .run()?;
    let release = workspace.target.join("release");
    runner::run(
        workspace,
        Selection::Interop,
        &[
            ("RVC_INTEROP_VENVS", home.as_os_str()),
            ("RVC_INTEROP_NODE", node.as_os_str()),
            ("RVC_RELEASE_DIR", release.as_os_str()),
        ],
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

fn missing_npm(workspace: &Workspace) -> Option<String> {
    (!workspace.has_program("npm")).then(|| {
        "npm is missing: `apt-get install npm`, or any Node 20 or newer; the peers bring their own Node"
            .to_owned()
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

/// Keeps the packages that were installed from the same lock file, as above.
fn install_packages(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    let sh = &workspace.sh;
    let installed_from = folder.join("installed-lock.json");
    let lock = workspace.root.join("examples/interop/package-lock.json");
    let wanted = sh.read_file(&lock)?;
    if sh.path_exists(&installed_from) && sh.read_file(&installed_from)? == wanted {
        return Ok(());
    }
    sh.remove_path(folder)?;
    sh.create_dir(folder)?;
    sh.copy_file(&lock, folder)?;
    sh.copy_file(lock.with_file_name("package.json"), folder)?;
    let _in_folder = sh.push_dir(folder);
    // Quiet about the peers' own Node being newer than npm's.
    cmd!(
        sh,
        "npm ci --loglevel=error --ignore-scripts --no-audit --no-fund"
    )
    .run()?;
    sh.write_file(&installed_from, wanted)?;
    Ok(())
}
