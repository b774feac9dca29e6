//! The stages that are little more than one cargo command.

use std::ffi::OsStr;

use anyhow::ensure;

use crate::edges;
use crate::features::published_members;
use crate::msrv;
use crate::outcome::Outcome;
use crate::runner::{self, Selection};
use crate::workspace::Workspace;

/// `Cargo.lock` says what the manifests ask, here and in the `no_std` programs.
pub(crate) fn lock(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let locked = ["metadata", "--locked", "--format-version=1"];
    workspace.cargo(locked).ignore_stdout().run()?;
    for program in workspace.no_std_programs()? {
        workspace
            .cargo(locked)
            .arg("--manifest-path")
            .arg(program.join("Cargo.toml"))
            .ignore_stdout()
            .run()?;
    }
    Ok(Outcome::passed())
}

/// Every file is as rustfmt writes it.
pub(crate) fn fmt(workspace: &Workspace) -> anyhow::Result<Outcome> {
    workspace.cargo(["fmt", "--all", "--check"]).run()?;
    for program in workspace.no_std_programs()? {
        workspace
            .cargo(["fmt", "--check", "--manifest-path"])
            .arg(program.join("Cargo.toml"))
            .run()?;
    }
    Ok(Outcome::passed())
}

/// The dependency edges of the crates.
pub(crate) fn edges(workspace: &Workspace) -> anyhow::Result<Outcome> {
    none_of(&edges::violations(&workspace.metadata()?))
}

/// The stated minimum Rust version.
pub(crate) fn msrv(workspace: &Workspace) -> anyhow::Result<Outcome> {
    none_of(&msrv::violations(&workspace.metadata()?)?)
}

/// Everything with all features, then each published crate bare and alone.
pub(crate) fn clippy(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let deny_warnings = ["--", "-D", "warnings"];
    workspace
        .cargo(["clippy", "--workspace", "--all-targets", "--all-features"])
        .args(deny_warnings)
        .run()?;
    for member in published_members(&workspace.metadata()?) {
        workspace
            .cargo(["clippy", "--no-default-features", "--package", &member.name])
            .args(deny_warnings)
            .run()?;
    }
    Ok(Outcome::passed())
}

/// Unit and integration tests, with more simulated lives than a developer waits for.
pub(crate) fn test(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let seeds = OsStr::new("1000");
    runner::run(workspace, Selection::Plain, &[("RVC_SIM_SEEDS", seeds)])
}

/// The examples in the documentation.
pub(crate) fn doc_test(workspace: &Workspace) -> anyhow::Result<Outcome> {
    workspace
        .cargo(["test", "--workspace", "--all-features", "--doc"])
        .run()?;
    Ok(Outcome::passed())
}

/// The documentation itself.
pub(crate) fn rustdoc(workspace: &Workspace) -> anyhow::Result<Outcome> {
    workspace
        .cargo(["doc", "--workspace", "--all-features", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    Ok(Outcome::passed())
}

fn none_of<V: ToString>(violations: &[V]) -> anyhow::Result<Outcome> {
    let lines: Vec<String> = violations.iter().map(V::to_string).collect();
    ensure!(lines.is_empty(), "{}", lines.join("\n"));
    Ok(Outcome::passed())
}
