//! The unit in `examples/deploy`. Whether systemd can read it, `cargo xtask ci deploy` says.

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
