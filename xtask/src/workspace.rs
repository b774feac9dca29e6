//! Where the workspace lies, and how its commands are run.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use xshell::{Cmd, Shell, cmd};

use crate::metadata::Metadata;
use crate::outcome::Place;

/// The workspace on this machine.
pub(crate) struct Workspace {
    pub(crate) sh: Shell,
    pub(crate) root: PathBuf,
    /// Cargo's target directory, absolute; `CARGO_TARGET_DIR` is respected.
    pub(crate) target: PathBuf,
    pub(crate) place: Place,
}

impl Workspace {
    /// Finds the workspace that this program was built from.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask lies in a folder of the workspace")?
            .to_owned();
        let sh = Shell::new()?;
        sh.change_dir(&root);
        // No lock check here: the gate has a stage for it, which says what to do.
        let json = cargo(&sh, ["metadata", "--no-deps", "--format-version=1"])
            .quiet()
            .read()?;
        let target = Metadata::from_json(&json)?.target_directory;
        // The user's own tools come first, then those the gate has installed.
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::split_paths(&path).chain([target.join("tools/bin")]);
        sh.set_var("PATH", env::join_paths(path)?);
        let place = Place::from_variable(env::var("CI").ok().as_deref());
        Ok(Self {
            sh,
            root,
            target,
            place,
        })
    }

    /// A cargo command, as it would run from a terminal in the root.
    pub(crate) fn cargo<I>(&self, args: I) -> Cmd<'_>
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        cargo(&self.sh, args)
    }

    /// Another program that runs cargo in turn.
    pub(crate) fn program<I>(&self, program: &Path, args: I) -> Cmd<'_>
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        as_from_a_terminal(cmd!(self.sh, "{program}").args(args))
    }

    /// What cargo knows of every package, of the locked dependencies too.
    pub(crate) fn metadata(&self) -> anyhow::Result<Metadata> {
        let json = self
            .cargo(["metadata", "--locked", "--format-version=1"])
            .quiet()
            .read()?;
        Metadata::from_json(&json)
    }

    /// Whether a program of this name is on the path.
    pub(crate) fn has_program(&self, name: &str) -> bool {
        let path = self.sh.var_os("PATH").unwrap_or_default();
        env::split_paths(&path).any(|folder| folder.join(name).is_file())
    }

    /// The files of one kind in a folder, by name.
    ///
    /// # Errors
    /// When there is no such folder.
    pub(crate) fn files(&self, folder: &str, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
        let files = self.sh.read_dir(folder)?.into_iter();
        Ok(files
            .filter(|file| file.extension().is_some_and(|kind| kind == extension))
            .collect())
    }

    /// The folders of a crate that lie outside the workspace's own build: its
    /// programs that must link without std.
    pub(crate) fn no_std_programs(&self) -> anyhow::Result<Vec<PathBuf>> {
        let programs = self.sh.read_dir("crates")?.into_iter();
        Ok(programs
            .map(|folder| folder.join("no-std"))
            .filter(|folder| folder.join("Cargo.toml").is_file())
            .collect())
    }
}

fn cargo<I>(sh: &Shell, args: I) -> Cmd<'_>
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    as_from_a_terminal(cmd!(sh, "cargo").args(args))
}

/// Under `cargo run` the variables of the package that runs (xtask) are set.
/// Build scripts that watch such variables would then run again, and all that
/// depends on them would be built again, on each turn from terminal to xtask.
fn as_from_a_terminal(command: Cmd<'_>) -> Cmd<'_> {
    let of_package = env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    });
    of_package.fold(command, Cmd::env_remove)
}
