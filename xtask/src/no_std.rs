//! Links the programs that must do without std, or without an allocation too,
//! and proves on the way that this check can fail.
//!
//! A program under `crates/<crate>/no-std` links only while its crate needs
//! neither. Its features `plant-std` and `plant-alloc` (where it must not
//! allocate) each plant one fault, and with it the program must no longer build,
//! for the reason named here: a check that fails for another reason proves
//! nothing.

use std::path::Path;
use std::process::Output;

use anyhow::{bail, ensure};

use crate::outcome::Outcome;
use crate::workspace::Workspace;

/// A planted fault, and what the build must say about it.
const PLANTED: &[(&str, &str)] = &[
    // A second `panic_impl`: std has come in beside the program's own.
    ("plant-std", "E0152"),
    // The function that the allocator calls and nobody defines. Linkers word the
    // error differently; they all name it.
    ("plant-alloc", "must_not_allocate"),
];

/// Builds and runs each program, then plants each fault in it.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let programs = workspace.no_std_programs()?;
    ensure!(!programs.is_empty(), "no program to check under crates/");
    for program in programs {
        let sound = workspace
            .cargo(["run", "--release"])
            .args(location(workspace, &program));
        sound.run()?;
        let manifest = std::fs::read_to_string(program.join("Cargo.toml"))?;
        let planted = planted(&manifest);
        ensure!(
            !planted.is_empty(),
            "{} has no fault to plant",
            program.display()
        );
        for (feature, reason) in planted {
            let faulty = workspace
                .cargo(["build", "--release", "--features", feature])
                .args(location(workspace, &program))
                .ignore_status()
                .output()?;
            verdict(feature, reason, &faulty)?;
        }
    }
    Ok(Outcome::passed())
}

/// The faults that a program's manifest has features for.
fn planted(manifest: &str) -> Vec<(&'static str, &'static str)> {
    PLANTED
        .iter()
        .copied()
        .filter(|(feature, _)| manifest.contains(&format!("\n{feature} = ")))
        .collect()
}

fn location(workspace: &Workspace, program: &Path) -> [std::ffi::OsString; 4] {
    [
        "--manifest-path".into(),
        program.join("Cargo.toml").into(),
        "--target-dir".into(),
        workspace.target.join("no-std").into(),
    ]
}

/// Whether a build with a planted fault failed as it must.
fn verdict(feature: &str, reason: &str, build: &Output) -> anyhow::Result<()> {
    ensure!(
        !build.status.success(),
        "built with `{feature}`: this check can no longer fail"
    );
    let said = String::from_utf8_lossy(&build.stderr);
    if !said.contains(reason) {
        bail!("`{feature}` failed for another reason than {reason}:\n{said}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::process::ExitStatusExt;
    use std::process::{ExitStatus, Output};

    use super::{planted, verdict};

    fn build(code: i32, said: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: Vec::new(),
            stderr: said.as_bytes().to_vec(),
        }
    }

    #[test]
    fn the_faults_are_those_that_a_manifest_has_features_for() {
        let names = |manifest| {
            planted(manifest)
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
        };

        assert_eq!(
            names("[features]\nplant-std = []\nplant-alloc = []\n"),
            ["plant-std", "plant-alloc"]
        );
        assert_eq!(
            names("# no plant-alloc = here\n[features]\nplant-std = [\"x/std\"]\n"),
            ["plant-std"]
        );
    }

    #[test]
    fn a_planted_fault_must_fail_for_its_own_reason() {
        assert!(verdict("plant-std", "E0152", &build(101, "error[E0152]: …")).is_ok());

        let built = verdict("plant-std", "E0152", &build(0, "")).unwrap_err();
        let other = verdict("plant-std", "E0152", &build(101, "no network")).unwrap_err();

        assert!(built.to_string().contains("can no longer fail"));
        assert!(other.to_string().contains("another reason"));
    }
}
