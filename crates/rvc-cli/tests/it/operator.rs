//! What an operator does less often: tokens, other transports, endings, damaged files.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use rvc_durable::store::{PostgresStore, SqliteStore, Store};
use rvc_durable::{ActionId, Linkage, StartPolicy};
use serde_json::{Value, json};

use crate::durable::{QUICK, Supervisor, World, lines};
use crate::rvc::{answer, command, run};

/// A server that refuses everybody, and tells what it was shown for it.
struct Doorman(TcpListener);

impl Doorman {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.0.local_addr().unwrap())
    }

    /// Lets one more request in, and returns its `Authorization`.
    fn shown(&self) -> Option<String> {
        let (stream, _) = self.0.accept().unwrap();
        authorization(stream)
    }
}

fn authorization(mut stream: TcpStream) -> Option<String> {
    let mut shown = None;
    for line in BufReader::new(stream.try_clone().unwrap()).lines() {
        let line = line.unwrap();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("authorization")
        {
            shown = Some(value.trim().to_owned());
        }
    }
    // Whoever was refused may be gone already.
    let _ = stream.write_all(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    shown
}

/// A world with an action for a server that wants a token.
fn refused(doorman: &Doorman) -> World {
    let world = World::new();
    world.json(&["registration", "add", "robot", "--url", &doorman.url()]);
    let mut start = vec!["action", "start", "--registration", "robot"];
    start.extend(["--tool", "beep", "--action-id", "a"]);
    world.json(&start);
    world
}

/// Whether the database has `text` somewhere.
fn is_stored(world: &World, text: &str) -> bool {
    let has_it = |bytes: &[u8]| bytes.windows(text.len()).any(|it| it == text.as_bytes());
    if world.is_on_a_file() {
        return ["", "-wal"]
            .iter()
            .any(|end| has_it(&std::fs::read(format!("{}{end}", world.db())).unwrap_or_default()));
    }
    // All that there is, in text.
    let dump = Command::new("pg_dump").arg(world.db()).output().unwrap();
    assert!(dump.status.success(), "{dump:?}");
    has_it(&dump.stdout)
}

#[test]
fn a_url_of_another_scheme_is_no_file_and_is_not_shown() {
    for url in [
        "postgresql+psycopg://u:secret@h/db",
        "mysql://u:secret@h/db",
        "postgresql//u:secret@h/db",
        "postgres:/u:secret@h/db",
        "postgres:/u:a secret@h/db",
        "u:secret@h/db",
    ] {
        let answer = run(["action", "list", "--db", url], "");
        assert_eq!(answer.code, 2, "{}", answer.stderr);
        assert!(answer.stderr.contains("postgres://"), "{}", answer.stderr);
        assert!(!answer.stderr.contains("secret"), "{}", answer.stderr);
        // The option was forgotten.
        let answer = run(["action", "list", url], "");
        assert_eq!(answer.code, 2, "{}", answer.stderr);
        assert!(!answer.stderr.contains("secret"), "{}", answer.stderr);
    }
}

#[test]
fn root_certificates_for_a_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("actions.db");
    let add = ["registration", "add", "robot", "--url", "http://robot/mcp"];
    let on = ["--db", db.to_str().unwrap()];
    let with = ["--db-root-certificates", "ca.pem"];

    let answer = run([&add[..], &on, &with].concat(), "");

    assert_eq!(answer.code, 2, "{}", answer.stderr);
    assert!(
        answer.stderr.contains("--db-root-certificates"),
        "{}",
        answer.stderr
    );
    assert!(!db.exists());
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let world = World::new();
    let url = world.robot.url.clone();
    let token = url.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    let token = format!("RVC_TOKEN_{}", token.to_ascii_uppercase());
    let start = ["action", "start", "--wait", "--tool", "beep", "--url", &url];
    for (rust_log, logs) in [("", false), ("info", true)] {
        let mut command = world.command(&[&start[..], &QUICK].concat());
        for name in [
            "PGPASSWORD",
            "RVC_DATABASE_ROOT_CERTIFICATES",
            "CREDENTIALS_DIRECTORY",
            &token,
        ] {
            command.env(name, "");
        }
        let answer = answer(command.env("RUST_LOG", rust_log), "");
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        assert_eq!(!answer.stderr.is_empty(), logs, "{}", answer.stderr);
    }

    let mut command = command(["action", "list"]);
    let answer = answer(command.env("RVC_DATABASE_URL", ""), "");
    assert_eq!(answer.code, 2, "{}", answer.stderr);
    assert!(
        answer.stderr.contains("no database is named"),
        "{}",
        answer.stderr
    );
}

#[test]
fn a_token_comes_from_the_environment_and_is_neither_stored_nor_logged() {
    let doorman = Doorman::new();
    let world = refused(&doorman);
    let mut supervisor = world.supervisor(&[]);
    let log = world.file("log");
    supervisor
        .env("RVC_TOKEN_ROBOT", "hunter2")
        .env("RUST_LOG", "debug")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap());
    let mut supervisor = supervisor.spawn().unwrap();

    for _ in 0..3 {
        assert_eq!(doorman.shown().as_deref(), Some("Bearer hunter2"));
    }

    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("supervising"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
    assert!(!is_stored(&world, "hunter2"));
    assert!(is_stored(&world, &doorman.url()), "what is there is found");
}

#[test]
fn a_token_in_a_file_goes_first_and_is_read_anew_for_each_connection() {
    let doorman = Doorman::new();
    let world = refused(&doorman);
    let file = world.file("token");
    std::fs::write(&file, "one\n").unwrap();
    let named = format!("robot={}", file.display());
    let mut supervisor = world.supervisor(&["--token-file", &named]);
    supervisor.env("RVC_TOKEN_ROBOT", "hunter2");
    let _supervisor = Supervisor::spawn(&mut supervisor);

    assert_eq!(doorman.shown().as_deref(), Some("Bearer one"));
    std::fs::write(&file, "two").unwrap();
    // One connection may have been opened with the old one meanwhile.
    let shown = [doorman.shown(), doorman.shown()];

    assert_eq!(shown[1].as_deref(), Some("Bearer two"));
    assert!(!is_stored(&world, "Bearer"));
}

#[test]
fn a_systemd_credential_is_a_token_too_and_a_missing_file_is_said() {
    let doorman = Doorman::new();
    let world = refused(&doorman);
    let credentials = tempfile::tempdir().unwrap();
    std::fs::write(credentials.path().join("rvc-token-robot"), "three").unwrap();
    let mut supervisor = world.supervisor(&[]);
    supervisor.env("CREDENTIALS_DIRECTORY", credentials.path());
    let supervisor = Supervisor::spawn(&mut supervisor);
    assert_eq!(doorman.shown().as_deref(), Some("Bearer three"));
    supervisor.kill();

    let _supervisor = Supervisor::spawn(&mut world.supervisor(&["--token-file", "robot=/none"]));
    let said = || world.show("a")["last_error"].to_string();
    while !said().contains("/none") {
        std::thread::sleep(Duration::from_millis(20));
    }

    assert_eq!(world.show("a")["starts"], 0, "nothing is sent without it");
}

#[test]
fn a_url_may_be_of_the_older_transport_and_does_not_change_it_by_the_way() {
    let world = World::new();
    let url = "http://127.0.0.1:9/sse";
    let start = |arguments: &[&str]| {
        let start = ["action", "start", "--tool", "beep", "--url", url];
        world.rvc(&[&start, arguments].concat())
    };

    assert_eq!(start(&["--transport", "sse"]).code, 0);

    let known = world.json(&["registration", "list"]).remove(0);
    assert_eq!(
        (&known["id"], &known["transport"]),
        (&json!(url), &json!("sse"))
    );
    assert_eq!(start(&[]).code, 0);
    let other = start(&["--transport", "streamable-http"]);
    assert_eq!(other.code, 2);
    assert!(
        other.stderr.contains("registered with sse"),
        "{}",
        other.stderr
    );
    assert_eq!(start(&["--transport", "pigeon"]).code, 2);
    let mut named = vec!["action", "start", "--tool", "beep", "--transport", "sse"];
    named.extend(["--registration", url]);
    assert_eq!(world.rvc(&named).code, 2);
}

/// A row as it is stored.
fn row(world: &World, action: &str) -> Linkage {
    let action: ActionId = action.parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let row = runtime.block_on(async {
        if world.is_on_a_file() {
            SqliteStore::open(world.db()).unwrap().row(action).await
        } else {
            let store = PostgresStore::open(&world.db()).await.unwrap();
            store.row(action).await
        }
    });
    row.unwrap().unwrap()
}

#[test]
fn what_a_start_is_told_is_kept_with_the_action() {
    let world = World::new();
    let url = world.robot.url.clone();
    let mut start = vec!["action", "start", "--url", &url, "--tool", "beep"];
    start.extend(["--action-id", "a", "--run-id", "r", "--tool-call-id", "c"]);
    start.extend(["--provider", "p", "--policy", "idempotent_tool"]);
    start.extend(["--deadline", "10m", "--remote-task-ttl", "1.5h"]);
    start.extend([
        "--arg",
        "n=1",
        "--arg",
        "s=one",
        "--arg",
        "o={\"k\":[true]}",
    ]);

    assert_eq!(world.json(&start)[0]["run_id"], "r");

    let row = row(&world, "a");
    assert_eq!(row.tool_call_id.as_deref(), Some("c"));
    assert_eq!(row.provider.as_deref(), Some("p"));
    assert_eq!(row.policy, StartPolicy::IdempotentTool);
    assert_eq!(row.assumed_ttl, Some(Duration::from_secs(5400)));
    let deadline = row.deadline_at.unwrap();
    assert_eq!(deadline.since(row.created_at), Duration::from_secs(600));
    let arguments = json!({"n": 1, "s": "one", "o": {"k": [true]}});
    assert_eq!(Value::Object(row.arguments), arguments);
}

#[test]
fn a_task_past_its_time_to_live_on_a_server_that_is_gone_is_expired() {
    let world = World::new();
    let url = world.robot.url.clone();
    world.json(&["registration", "add", "robot", "--url", &url]);
    let mut start = vec![
        "action",
        "start",
        "--registration",
        "robot",
        "--tool",
        "dock",
    ];
    start.extend(["--action-id", "a", "--remote-task-ttl", "300ms"]);
    start.extend(["--args-json", r#"{"key": "a", "polls": 1000000}"#]);
    world.json(&start);
    let mut supervisor = Supervisor::spawn(&mut world.supervisor(&[]));
    supervisor.wait_for("working");
    supervisor.kill();

    // Nobody listens there.
    world.json(&[
        "registration",
        "add",
        "robot",
        "--url",
        "http://127.0.0.1:9/mcp",
    ]);
    world.until_idle();

    let view = world.show("a");
    assert_eq!(view["phase"], "expired");
    assert_eq!(view["error_code"], "REMOTE_TASK_EXPIRED");
}

/// A supervisor whose start reached the server, which does not answer.
fn held(world: &World, grace: &str) -> Supervisor {
    world.start("a", "held");
    let supervisor = Supervisor::spawn(&mut world.supervisor(&["--close-grace", grace]));
    while world.robot.starts("a") == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    supervisor
}

#[test]
fn a_supervisor_that_is_told_to_stop_gives_an_unanswered_start_up_after_its_grace() {
    let world = World::new();
    let supervisor = held(&world, "200ms");

    supervisor.signal("-TERM");
    assert_eq!(supervisor.wait().code(), Some(0));

    let view = world.show("a");
    assert_eq!(view["phase"], "unknown");
    assert_eq!(view["error_code"], "START_OUTCOME_UNKNOWN");
    world.robot.release();
    world.until_idle();
    assert_eq!(world.robot.starts("a"), 1);
}

#[test]
fn a_second_signal_ends_a_supervisor_at_once() {
    let world = World::new();
    let mut supervisor = held(&world, "1h");

    supervisor.signal("-TERM");
    // The first one must have been taken before the second one counts.
    while supervisor.is_running() {
        supervisor.signal("-INT");
        std::thread::sleep(Duration::from_millis(50));
    }

    // As after any other death.
    assert_eq!(world.show("a")["phase"], "sending");
    world.until_idle();
    assert_eq!(world.show("a")["error_code"], "START_OUTCOME_UNKNOWN");
    assert_eq!(world.robot.starts("a"), 1);
}

/// The bytes of a database with one action, when all of them are in the one file.
fn database(world: &World) -> Vec<u8> {
    world.start("a", "beep");
    // Whoever closes it last moves everything there, in its own time.
    drop(SqliteStore::open(world.db()).unwrap());
    while world.file("durable.db-wal").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::read(world.db()).unwrap()
}

#[test]
fn a_database_of_a_newer_program_or_another_one_is_refused_and_stays_as_it_is() {
    // Where SQLite's header has the two, each with four bytes: user_version, application_id.
    for (at, said) in [(60, "use the newer program"), (68, "to another program")] {
        let world = World::on_a_file();
        let mut bytes = database(&world);
        bytes[at..at + 4].copy_from_slice(&99_u32.to_be_bytes());
        std::fs::write(world.db(), &bytes).unwrap();

        let url = world.robot.url.clone();
        let mut wait = vec!["action", "start", "--url", &url, "--tool", "beep"];
        wait.extend(["--action-id", "a", "--arg", "key=a", "--wait"]);
        for arguments in [
            &["action", "list"][..],
            &["action", "cancel", "a"],
            &["registration", "list"],
            &["supervise", "--until-idle"],
            &wait,
        ] {
            let answer = world.rvc(arguments);
            assert_eq!(answer.code, 2, "{arguments:?}");
            assert!(
                answer.stderr.contains(said),
                "{arguments:?}: {}",
                answer.stderr
            );
        }
        assert_eq!(std::fs::read(world.db()).unwrap(), bytes);
        assert_eq!(world.robot.starts("a"), 0);
    }
}

#[test]
fn a_damaged_database_is_a_clear_error_and_nothing_is_sent() {
    let world = World::on_a_file();
    let mut bytes = database(&world);
    // The schema is whole; the rows are not.
    let first = bytes.len() / 2;
    bytes[first..].fill(0xa5);
    std::fs::write(world.db(), &bytes).unwrap();

    let url = world.robot.url.clone();
    let mut wait = vec!["action", "start", "--url", &url, "--tool", "beep"];
    wait.extend(["--action-id", "a", "--arg", "key=a", "--wait", "--json"]);
    wait.extend(QUICK);
    let answer = world.rvc(&wait);

    assert_eq!(answer.code, 2, "{}", answer.stdout);
    assert!(answer.stderr.contains("damaged"), "{}", answer.stderr);
    assert!(lines(&answer.stdout).is_empty());
    assert_eq!(world.robot.starts("a"), 0);
}

#[test]
fn a_start_has_a_timeout_of_its_own_in_both_commands_that_supervise() {
    let limits = ["--start-timeout", "200ms", "--request-timeout", "20s"];
    let world = World::new();
    world.start("a", "held");
    let answer = crate::rvc::answer(
        &mut world.supervisor(&[&limits[..], &["--until-idle"]].concat()),
        "",
    );
    assert_eq!(answer.code, 0, "{}", answer.stderr);

    let url = world.robot.url.clone();
    let mut wait = vec!["action", "start", "--url", &url, "--tool", "held", "--wait"];
    wait.extend(["--action-id", "b", "--arg", "key=b"]);
    let answer = world.rvc(&[&wait[..], &limits].concat());
    assert_eq!(answer.code, 1, "{}", answer.stderr);

    for action in ["a", "b"] {
        let view = world.show(action);
        assert_eq!(view["error_code"], "START_OUTCOME_UNKNOWN", "{action}");
        let message = view["message"].to_string();
        assert!(message.contains("no answer within 200ms"), "{message}");
    }
    world.robot.release();
}

#[test]
fn a_result_cap_and_a_concurrency_are_given_on_the_command_line_and_nonsense_is_refused() {
    let world = World::new();
    world.start("a", "beep");
    let limits = ["--max-result-bytes", "10", "--concurrency", "1"];
    let mut supervisor = world.supervisor(&limits);
    supervisor.args(["--until-idle", "--concurrency-per-registration", "1"]);
    assert_eq!(crate::rvc::answer(&mut supervisor, "").code, 0);
    assert_eq!(world.show("a")["error_code"], "RESULT_TOO_LARGE");

    for (nonsense, said) in [
        (["--concurrency", "0"], "--concurrency"),
        (["--start-timeout", "2h"], "--max-start-time"),
        (["--request-timeout", "10"], "no duration"),
    ] {
        let answer = world.rvc(&[&["supervise"], &nonsense[..]].concat());
        assert_eq!(answer.code, 2, "{nonsense:?}");
        assert!(answer.stderr.contains(said), "{}", answer.stderr);
    }
}
