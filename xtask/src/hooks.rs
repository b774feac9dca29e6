//! The git hook that runs the quick stages before a commit.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::ensure;
use xshell::cmd;

use crate::workspace::Workspace;

/// The hook. Its second line says whose it is.
///
/// Git tells a hook where the repository lies; cargo must not hear of it, or
/// its own git commands would act there.
const HOOK: &str = "\
#!/bin/sh
# Installed by `cargo xtask hooks`; skip it once with `git commit --no-verify`.
unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE
exec cargo xtask ci --fail-fast lock fmt edges clippy
";

/// Writes the hook.
///
/// # Errors
/// When there is a hook of somebody else's, which is left as it is.
pub(crate) fn install(workspace: &Workspace) -> anyhow::Result<()> {
    let sh = &workspace.sh;
    let folder = cmd!(sh, "git rev-parse --git-path hooks").quiet().read()?;
    let path = workspace.root.join(folder).join("pre-commit");
    if sh.path_exists(&path) {
        ensure!(
            is_ours(&sh.read_file(&path)?),
            "{} is not ours and stays; add `cargo xtask ci --fail-fast lock fmt edges clippy` to it by hand",
            path.display()
        );
    }
    sh.write_file(&path, HOOK)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    println!("installed {}", path.display());
    Ok(())
}

fn is_ours(hook: &str) -> bool {
    hook.lines().nth(1) == HOOK.lines().nth(1)
}

#[cfg(test)]
mod tests {
    use super::{HOOK, is_ours};
    use crate::gate::select;

    #[test]
    fn our_own_hook_may_be_replaced_and_a_foreign_one_may_not() {
        assert!(is_ours(HOOK));
        assert!(is_ours(&HOOK.replace("clippy", "test")));
        assert!(!is_ours("#!/bin/sh\nexec pre-commit run\n"));
        assert!(!is_ours(""));
    }

    #[test]
    fn the_stages_of_the_hook_exist() {
        let (_, names) = HOOK.trim().split_once("--fail-fast ").unwrap_or_default();
        let names: Vec<String> = names.split(' ').map(str::to_owned).collect();

        assert!(select(&names).is_ok_and(|stages| stages.len() == 4));
    }
}
