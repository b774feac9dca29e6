//! The files of `examples/deploy`.

use std::process::Command;

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/rvc-sleeper.service");

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let Ok(verified) = Command::new("systemd-analyze")
        .args(["verify", UNIT])
        .output()
    else {
        eprintln!("not checked: this machine has no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && said.is_empty(), "{said}");
}

#[test]
fn the_unit_is_hardened_and_gets_its_secret_from_systemd() {
    let unit = include_str!("../../deploy/rvc-sleeper.service");
    for line in [
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "ProtectSystem=strict",
        "DynamicUser=yes",
        "LoadCredential=event-secret:/etc/rvc/sleeper.secret",
        "Environment=RVC_EVENT_SECRET_FILE=%d/event-secret",
        "KillSignal=SIGTERM",
        "Restart=on-failure",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    // Cancel grace, drain and the end of sessions, as the kit's defaults have them.
    let stop = unit
        .lines()
        .find_map(|line| line.strip_prefix("TimeoutStopSec="));
    assert!(stop.unwrap().parse::<u32>().unwrap() > 5 + 5 + 10);
}
