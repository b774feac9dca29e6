use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than the scripts allow themselves, so that they can still stop what they started.
const DEADLINE: Duration = Duration::from_secs(59);

/// Runs `examples/interop/<script>` in one of the Python environments; returns what it wrote, as
/// an error if it failed.
pub(crate) fn run(environment: &str, script: &str, arguments: &[&str]) -> Result<String, String> {
    let test = std::thread::current()
        .name()
        .unwrap_or("main")
        .replace("::", "-");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.log"));
    // A file and not a pipe: nobody has to read while the script runs.
    let file = File::create(&output).expect("the build directory can be written");
    let mut child = Command::new(python(environment))
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("interop")
                .join(script),
        )
        .args(arguments)
        .stdout(file.try_clone().expect("the file is open"))
        .stderr(file)
        .spawn()
        .expect("run `cargo xtask ci interop`, which installs the peers");

    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            break Some(status);
        }
        if start.elapsed() > DEADLINE {
            child.kill().expect("it is our child");
            child.wait().expect("it is our child");
            break None;
        }
        sleep(Duration::from_millis(20));
    };
    let written = fs::read_to_string(&output).expect("the script writes text");
    match status {
        Some(status) if status.success() => Ok(written),
        Some(status) => Err(format!("{status}\n{written}")),
        None => Err(format!("not done after {DEADLINE:?}\n{written}")),
    }
}

/// The interpreter of an environment, such as `mcp-1.30.0`.
pub(crate) fn python(environment: &str) -> PathBuf {
    variable("RVC_INTEROP_VENVS")
        .join(environment)
        .join("bin/python")
}

/// The release build of an example.
pub(crate) fn example(name: &str) -> String {
    let path = variable("RVC_RELEASE_DIR").join("examples").join(name);
    path.into_os_string()
        .into_string()
        .expect("build directories have plain names")
}

fn variable(name: &str) -> PathBuf {
    let value = std::env::var_os(name);
    value
        .unwrap_or_else(|| panic!("{name} is not set: run `cargo xtask ci interop`"))
        .into()
}
