use crate::rvc::run;

#[test]
fn help_says_what_each_command_does_and_what_its_exit_code_means() {
    for (arguments, facts) in [
        (
            vec!["--help"],
            vec![
                "sign",
                "verify",
                "event",
                "listen",
                "Exit codes",
                "RUST_LOG",
            ],
        ),
        (
            vec!["sign", "--help"],
            vec!["--secret-hex", "`ps`", "RVC_EVENT_SECRET"],
        ),
        (
            vec!["verify", "--help"],
            vec![
                "malformed_signature",
                "stale 301 s behind",
                "exit code is 0",
            ],
        ),
        (vec!["event", "check", "--help"], vec!["exit code 1"]),
        (
            vec!["supervise", "--help"],
            vec![
                "--start-timeout",
                "[default: 60s]",
                "[default: 1h]",
                "[default: 16777216]",
                "[default: 64]",
                "[default: 8]",
            ],
        ),
        (
            vec!["action", "start", "--help"],
            vec!["--start-timeout", "--concurrency-per-registration"],
        ),
        (
            vec!["listen", "--help"],
            vec![
                "SERVER=SECRET",
                "--env-file",
                "`ps`",
                "JSON lines",
                "\"gap\"",
            ],
        ),
    ] {
        let answer = run(&arguments, "");
        assert_eq!(answer.code, 0, "{arguments:?}");
        for fact in facts {
            assert!(
                answer.stdout.contains(fact),
                "{arguments:?}: {fact}: {}",
                answer.stdout
            );
        }
    }
}

#[test]
fn a_command_that_does_not_exist_is_wrong_usage() {
    for arguments in [vec![], vec!["sing"], vec!["event"], vec!["listen"]] {
        assert_eq!(run(&arguments, "").code, 2, "{arguments:?}");
    }
}
