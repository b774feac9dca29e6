//! The systemd units that the examples ship.

use anyhow::ensure;
use xshell::cmd;

use crate::outcome::Outcome;
use crate::workspace::Workspace;

/// Has systemd itself read each unit.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if !workspace.has_program("systemd-analyze") {
        return Ok(Outcome::Skipped {
            reason: "systemd-analyze is missing: `apt-get install systemd`".to_owned(),
        });
    }
    let sh = &workspace.sh;
    let files = sh.read_dir("examples/deploy")?.into_iter();
    let units: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|kind| kind == "service"))
        .collect();
    ensure!(!units.is_empty(), "examples/deploy/ has no unit");
    let scratch = sh.create_temp_dir()?;
    for unit in units {
        let name = unit.file_name().unwrap_or_default();
        let copy = scratch.path().join(name);
        sh.write_file(&copy, with_stand_in(&sh.read_file(&unit)?))?;
        cmd!(sh, "systemd-analyze verify --man=no {copy}").run()?;
    }
    Ok(Outcome::passed())
}

/// The unit with `/bin/true` in place of the programs it starts.
///
/// systemd insists that they exist, and here they are not installed.
fn with_stand_in(unit: &str) -> String {
    let lines = unit.lines().map(|line| match line.split_once("=/") {
        Some((key, command)) if key.starts_with("Exec") => {
            let (_, arguments) = command.split_once(' ').unwrap_or((command, ""));
            format!("{key}=/bin/true {arguments}\n")
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::with_stand_in;

    #[test]
    fn only_the_programs_are_replaced() {
        let unit = "[Service]\nExecStart=/usr/local/bin/sleeper --log json\nUser=rvc\n";

        assert_eq!(
            with_stand_in(unit),
            "[Service]\nExecStart=/bin/true --log json\nUser=rvc\n"
        );
    }
}
