//! Programs that cargo does not bring along, installed when they are missing.

use crate::workspace::Workspace;

/// A cargo subcommand from the registry.
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    /// Further arguments of `cargo install`.
    options: &'static [&'static str],
}

pub(crate) const DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    options: &[],
};

pub(crate) const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    version: "0.9.143",
    options: &["--no-default-features", "--features=default-no-update"],
};

pub(crate) const TARPAULIN: Tool = Tool {
    name: "cargo-tarpaulin",
    version: "0.37.5",
    options: &["--no-default-features"],
};

impl Tool {
    /// Makes sure that the tool can be called.
    ///
    /// One on the path is used, whatever its version. Otherwise the version
    /// above is built into `target/tools`: the user's machine is not changed.
    ///
    /// # Errors
    /// When it cannot be installed; the message has the line to do it by hand.
    pub(crate) fn ensure(&self, workspace: &Workspace) -> anyhow::Result<()> {
        if workspace.has_program(self.name) {
            return Ok(());
        }
        let home = workspace.target.join("tools");
        let scratch = home.join("build");
        let installed = workspace
            .cargo(["install", "--locked", "--debug", "--version", self.version])
            .args(self.options)
            .arg("--root")
            .arg(&home)
            .arg("--target-dir")
            .arg(&scratch)
            .arg(self.name)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .run();
        workspace.sh.remove_path(&scratch)?;
        installed.map_err(|error| anyhow::anyhow!("{error}; install it with `{}`", self.line()))
    }

    fn line(&self) -> String {
        let mut words = vec![
            "cargo install --locked",
            self.name,
            "--version",
            self.version,
        ];
        words.extend(self.options);
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::{DENY, NEXTEST};

    #[test]
    fn the_install_line_can_be_pasted_into_a_terminal() {
        assert_eq!(
            DENY.line(),
            "cargo install --locked cargo-deny --version 0.20.2"
        );
        assert!(NEXTEST.line().ends_with("--features=default-no-update"));
    }
}
