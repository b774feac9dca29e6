//! Actions, registrations and supervision, as an operator and a script use them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::robot::Robot;
use crate::rvc::{Answer, FullPipe, command, run};

/// A server, and a database.
pub(crate) struct World {
    pub(crate) robot: Robot,
    directory: TempDir,
    /// The database of a cluster; without one it is a file.
    cluster: Option<String>,
}

impl World {
    /// On a file, or on `PostgreSQL` where the tests run beside a cluster.
    pub(crate) fn new() -> Self {
        Self::with(Robot::start())
    }

    /// On a file, whatever there is.
    pub(crate) fn on_a_file() -> Self {
        Self {
            cluster: None,
            ..Self::new()
        }
    }

    fn with(robot: Robot) -> Self {
        let folder = std::env::var("RVC_TEST_POSTGRES").ok();
        Self {
            robot,
            directory: tempfile::tempdir().unwrap(),
            cluster: folder.map(|folder| created(&folder)),
        }
    }

    pub(crate) fn db(&self) -> String {
        match &self.cluster {
            None => self.file("durable.db").to_str().unwrap().to_owned(),
            Some(url) => url.clone(),
        }
    }

    /// A file that goes with the world.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn is_on_a_file(&self) -> bool {
        self.cluster.is_none()
    }

    /// A command on the database.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.args(["--db", &self.db()]);
        command
    }

    pub(crate) fn rvc(&self, arguments: &[&str]) -> Answer {
        crate::rvc::answer(&mut self.command(arguments), "")
    }

    /// A command that succeeds, and the JSON lines that it prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let answer = self.rvc(&[arguments, &["--json"]].concat());
        assert_eq!(answer.code, 0, "{arguments:?}: {}", answer.stderr);
        lines(&answer.stdout)
    }

    /// Starts an action whose key at the server is its id.
    pub(crate) fn start(&self, action: &str, tool: &str) -> Value {
        let key = format!("key={action}");
        let url = self.robot.url.clone();
        let mut start = vec!["action", "start", "--url", &url, "--action-id", action];
        start.extend(["--tool", tool, "--arg", &key]);
        self.json(&start).remove(0)
    }

    /// A supervisor in a hurry, as `quick` and what more is asked for.
    pub(crate) fn supervisor(&self, arguments: &[&str]) -> Command {
        self.command(&[&["supervise", "--json"], &QUICK[..], arguments].concat())
    }

    /// Supervises until nothing is left to do.
    pub(crate) fn until_idle(&self) {
        let answer = crate::rvc::answer(&mut self.supervisor(&["--until-idle"]), "");
        assert_eq!(answer.code, 0, "{}", answer.stderr);
    }

    pub(crate) fn show(&self, action: &str) -> Value {
        self.json(&["action", "show", action]).remove(0)
    }
}

/// A new database of the cluster whose socket is in `folder`. It ends with the cluster.
fn created(folder: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("cli_{}_{count}", std::process::id());
    let created = Command::new("createdb")
        .args(["-h", folder, "-U", "postgres", &name])
        .status()
        .unwrap();
    assert!(created.success());
    format!("postgres:///{name}?host={folder}&user=postgres")
}

/// Short leases, and polls without rests.
pub(crate) const QUICK: [&str; 6] = [
    "--lease",
    "300ms",
    "--min-poll",
    "5ms",
    "--max-poll",
    "20ms",
];

pub(crate) fn lines(stdout: &str) -> Vec<Value> {
    let parsed = stdout.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().expect(stdout)
}

/// A supervisor that runs. It is killed when it is dropped.
pub(crate) struct Supervisor {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Supervisor {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        // Nobody reads its log.
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads what it prints next.
    pub(crate) fn next(&mut self) -> Value {
        let mut line = String::new();
        let bytes = self.stdout.read_line(&mut line).unwrap();
        assert!(bytes > 0, "the supervisor ended");
        serde_json::from_str(&line).expect(&line)
    }

    /// Reads until an action is printed in `phase`, in which it must stay.
    pub(crate) fn wait_for(&mut self, phase: &str) {
        while self.next()["phase"] != phase {}
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn wait(mut self) -> std::process::ExitStatus {
        // Else a full pipe would keep it from ending.
        let _ = std::io::copy(&mut self.stdout, &mut std::io::sink());
        self.child.wait().unwrap()
    }

    /// Ends it as nothing else does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_action_is_durable_when_it_is_printed_and_ends_under_another_process() {
    let world = World::new();

    let started = world.start("a", "drive");
    assert_eq!(
        (&started["phase"], &started["action_state"]),
        (&json!("intent"), &json!("pending"))
    );
    assert_eq!(world.robot.starts("a"), 0);
    world.until_idle();

    let shown = world.show("a");
    for (field, value) in [
        ("action_id", json!("a")),
        ("run_id", json!("a")),
        ("phase", json!("completed")),
        ("action_state", json!("completed")),
        ("remote_status", json!("completed")),
        ("starts", json!(1)),
        ("is_error", json!(false)),
        ("error_code", Value::Null),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(shown["result"]["text"], "a done");
    assert!(shown["remote_task_id"].is_string() && shown["polls"].as_u64().unwrap() >= 3);
    assert_eq!(world.robot.starts("a"), 1);
}

#[test]
fn a_contract_task_is_followed_over_sse_where_the_registration_says_so() {
    let world = World::with(Robot::over(rvc_mcp::Transport::Sse));
    let mut add = vec!["registration", "add", "old-robot", "--transport", "sse"];
    add.extend(["--url", &world.robot.url]);
    world.json(&add);
    let mut start = vec!["action", "start", "--registration", "old-robot"];
    start.extend(["--action-id", "a", "--tool", "dock", "--arg", "key=a"]);
    world.json(&start);

    world.until_idle();

    let shown = world.show("a");
    assert_eq!(shown["phase"], "completed", "{shown}");
    assert_eq!(shown["remote_status"], "succeeded");
    assert_eq!(shown["result"]["text"], r#"{"at":"a"}"#);
    assert_eq!(world.robot.starts("a"), 1);
}

#[test]
fn waiting_ends_with_the_outcome_and_its_exit_code() {
    let world = World::new();
    let url = world.robot.url.clone();
    for (tool, code, phase, error) in [
        ("drive", 0, "completed", Value::Null),
        ("dock", 0, "completed", Value::Null),
        ("beep", 0, "completed", Value::Null),
        ("jam", 1, "failed", json!("TOOL_ERROR")),
    ] {
        let mut start = vec!["action", "start", "--url", &url, "--tool", tool];
        start.extend(["--wait", "--json", "--args-json", r#"{"polls": 2}"#]);
        start.extend(QUICK);
        let answer = world.rvc(&start);

        assert_eq!(answer.code, code, "{tool}: {}", answer.stderr);
        assert_eq!(answer.stderr, "");
        let views = lines(&answer.stdout);
        assert_eq!(views.len(), 2);
        assert_eq!(views[0]["phase"], "intent");
        assert_eq!(views[1]["phase"], phase);
        assert_eq!(views[1]["error_code"], error);
        // A new id, and a run that is named after it.
        assert_eq!(views[0]["action_id"], views[1]["run_id"]);
    }
}

#[test]
fn an_action_past_its_deadline_fails_and_its_task_is_cancelled() {
    let world = World::new();
    let url = world.robot.url.clone();
    let mut start = vec!["action", "start", "--url", &url, "--tool", "roam"];
    start.extend(["--arg", "key=a", "--deadline", "400ms", "--wait", "--json"]);
    start.extend(QUICK);

    let answer = world.rvc(&start);

    assert_eq!(answer.code, 1, "{}", answer.stderr);
    let view = lines(&answer.stdout).pop().unwrap();
    assert_eq!(view["error_code"], "EXECUTION_DEADLINE_EXCEEDED");
    // On a busy machine it passes before anything was started.
    assert_eq!(world.robot.cancels("a"), world.robot.starts("a"));
}

#[test]
fn the_same_action_again_is_harmless_and_with_other_arguments_refused() {
    let world = World::new();
    world.start("a", "beep");
    world.until_idle();

    let again = world.start("a", "beep");
    assert_eq!(again["phase"], "completed");

    let url = world.robot.url.clone();
    let mut other = vec!["action", "start", "--url", &url, "--action-id", "a"];
    other.extend(["--tool", "beep", "--arg", "key=b"]);
    let answer = world.rvc(&other);
    assert_eq!((answer.code, answer.stdout.as_str()), (1, ""));
    assert!(answer.stderr.contains("refused"), "{}", answer.stderr);
    assert_eq!(world.robot.starts("a") + world.robot.starts("b"), 1);
}

#[test]
fn a_cancel_is_final_and_reaches_the_server() {
    let world = World::new();
    world.start("a", "roam");
    let mut supervisor = Supervisor::spawn(&mut world.supervisor(&[]));
    supervisor.wait_for("working");

    let cancelled = world.json(&["action", "cancel", "a"]).remove(0);
    assert_eq!(cancelled["phase"], "cancelled");
    world.until_idle();

    assert_eq!(world.robot.cancels("a"), 1);
    assert_eq!(world.show("a")["remote_status"], "cancelled");
    assert_eq!(world.rvc(&["action", "cancel", "a"]).code, 0);
    supervisor.signal("-TERM");
    assert_eq!(supervisor.wait().code(), Some(0));

    world.start("b", "beep");
    world.until_idle();
    let late = world.rvc(&["action", "cancel", "b"]);
    assert_eq!(late.code, 1);
    assert!(late.stderr.contains("had ended before"), "{}", late.stderr);
    assert_eq!(world.show("b")["phase"], "completed");
}

#[test]
fn a_supervisor_that_nobody_reads_goes_on_and_ends_when_it_is_told_to() {
    let world = World::new();
    world.start("a", "roam");
    let pipe = FullPipe::new();
    let mut command = world.supervisor(&[]);
    let mut child = command
        .stdout(pipe.writer())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(|| world.show("a")["phase"] == "working");

    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(sent.success());
    until(|| child.try_wait().unwrap().is_some());

    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert_eq!(world.show("a")["phase"], "working");
}

fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_task_that_asks_is_answered_once() {
    let world = World::new();
    world.start("a", "ask");
    let mut supervisor = Supervisor::spawn(&mut world.supervisor(&[]));
    supervisor.wait_for("input_required");
    assert!(world.show("a")["input_requests"]["confirm"].is_object());

    let yes = r#"confirm={"action": "accept", "content": {}}"#;
    let other = world.rvc(&["action", "answer", "a", "--input", "elsewhere=1"]);
    assert_eq!(other.code, 1, "{}", other.stderr);
    world.json(&["action", "answer", "a", "--input", yes]);
    supervisor.wait_for("completed");

    assert_eq!(world.show("a")["result"]["text"], "a done");
    assert_eq!(
        world.rvc(&["action", "answer", "a", "--input", yes]).code,
        1
    );
}

#[test]
fn actions_are_listed_by_run_and_phase() {
    let world = World::new();
    for (action, tool) in [("a", "beep"), ("b", "jam"), ("c", "beep")] {
        world.start(action, tool);
    }
    world.until_idle();
    let ids = |arguments: &[&str]| -> Vec<String> {
        let listed = world.json(&[&["action", "list"], arguments].concat());
        let ids = listed
            .iter()
            .map(|view| view["action_id"].as_str().unwrap());
        ids.map(str::to_owned).collect()
    };

    assert_eq!(ids(&[]).len(), 3);
    assert_eq!(ids(&["--phase", "failed"]), ["b"]);
    assert_eq!(ids(&["--run-id", "c"]), ["c"]);
    assert_eq!(ids(&["--limit", "1"]).len(), 1);
    let shown = world.rvc(&["action", "list", "--phase", "failed"]).stdout;
    assert_eq!(shown, "b  failed  jam  TOOL_ERROR: jammed\n");
}

#[test]
fn a_registration_that_is_disabled_stops_its_actions_and_removed_takes_no_more() {
    let world = World::new();
    let url = world.robot.url.clone();
    let start = |action: &str| {
        let mut start = vec!["action", "start", "--registration", "robot", "--json"];
        start.extend(["--tool", "drive", "--action-id", action]);
        world.rvc(&start)
    };
    let registration = |arguments: &[&str]| world.json(&[&["registration"], arguments].concat());

    let added = registration(&["add", "robot", "--url", &url]);
    let expected = json!({
        "id": "robot", "owner": "local", "endpoint": url, "transport": "streamable-http",
        "enabled": true,
    });
    assert_eq!(added[0], expected);
    assert_eq!(start("a").code, 0);
    assert_eq!(registration(&["disable", "robot"])[0]["enabled"], false);
    // A new endpoint does not enable it.
    assert_eq!(
        registration(&["add", "robot", "--url", &url])[0]["enabled"],
        false
    );
    world.until_idle();
    assert_eq!(world.show("a")["error_code"], "REGISTRATION_REVOKED");

    assert_eq!(registration(&["enable", "robot"])[0], expected);
    assert_eq!(registration(&["list"]), [expected]);
    assert_eq!(start("b").code, 0);
    world.until_idle();
    assert_eq!(world.show("b")["phase"], "completed");

    registration(&["remove", "robot"]);
    assert!(registration(&["list"]).is_empty());
    for gone in ["disable", "enable", "remove"] {
        assert_eq!(
            world.rvc(&["registration", gone, "robot"]).code,
            1,
            "{gone}"
        );
    }
    assert_eq!(start("c").code, 1);
    // Its outcome is still there for whoever asks again.
    assert_eq!(start("b").code, 0);
}

#[test]
fn what_is_not_there_is_exit_code_1_and_what_cannot_be_done_2() {
    let world = World::on_a_file();
    let missing = world.rvc(&["action", "list"]);
    assert_eq!(missing.code, 2);
    assert!(
        missing.stderr.contains("there is no database"),
        "{}",
        missing.stderr
    );

    world.start("a", "beep");
    for arguments in [
        &["action", "show", "b"][..],
        &["action", "cancel", "b"],
        &["action", "answer", "b", "--input", "k=1"],
    ] {
        let answer = world.rvc(arguments);
        assert_eq!(answer.code, 1, "{arguments:?}");
        assert!(
            answer.stderr.contains("there is no action b"),
            "{arguments:?}"
        );
    }

    let url = world.robot.url.clone();
    let start = ["action", "start", "--tool", "beep"];
    for bad in [
        &[][..],
        &["--url", &url, "--registration", "robot"],
        &["--url", &url, "--arg", "k"],
        &["--url", &url, "--arg", "k=1", "--arg", "k=2"],
        &["--url", &url, "--args-json", "[1]"],
        &["--url", &url, "--arg", "k=1", "--args-json", "{}"],
        &["--url", &url, "--policy", "twice"],
        &["--url", &url, "--deadline", "soon"],
        &["--url", "ftp://robot/"],
    ] {
        assert_eq!(world.rvc(&[&start, bad].concat()).code, 2, "{bad:?}");
    }
}

#[test]
fn credentials_in_a_url_are_refused_and_not_repeated() {
    let world = World::new();
    for url in [
        "http://me:hunter2@robot/mcp",
        "http://robot/mcp?token=hunter2",
    ] {
        for arguments in [
            &["action", "start", "--tool", "beep", "--url", url][..],
            &["registration", "add", "robot", "--url", url],
        ] {
            let answer = world.rvc(arguments);
            assert_eq!(answer.code, 2, "{arguments:?}");
            assert!(answer.stderr.contains("credentials"), "{}", answer.stderr);
            assert!(!answer.stderr.contains("hunter2"), "{}", answer.stderr);
        }
    }
}

#[test]
fn a_file_that_is_no_database_is_a_clear_error_and_stays_as_it_is() {
    let world = World::on_a_file();
    std::fs::write(world.db(), "these are my notes\n".repeat(100)).unwrap();

    for arguments in [&["action", "list"][..], &["supervise", "--until-idle"]] {
        let answer = world.rvc(arguments);
        assert_eq!(answer.code, 2, "{arguments:?}");
        assert!(answer.stderr.contains("no database"), "{}", answer.stderr);
    }
    let kept = std::fs::read_to_string(world.db()).unwrap();
    assert_eq!(kept, "these are my notes\n".repeat(100));
}

/// The names in a JSON object, and in the objects in it, but not in what a server answered.
fn names(value: &Value) -> Vec<String> {
    let Value::Object(fields) = value else {
        return vec![];
    };
    let mut names: Vec<String> = fields.keys().cloned().collect();
    names.extend(self::names(
        &fields.get("result").cloned().unwrap_or_default(),
    ));
    names
}

/// Whether a text has a word, and not only as a part of another one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(|letter| !is_part(letter)).any(|it| it == word)
}

#[test]
fn help_documents_every_field_that_is_printed_and_the_exit_codes() {
    let world = World::new();
    world.start("a", "report");
    world.until_idle();
    let action = world.show("a");
    for name in ["structured_content", "metadata"] {
        assert!(action["result"][name].is_object(), "{action}");
    }
    let registration = world.json(&["registration", "list"]).remove(0);
    for (sample, commands) in [
        (
            action,
            &[
                ["action", "--help"].as_slice(),
                &["action", "start", "--help"],
                &["action", "list", "--help"],
                &["action", "show", "--help"],
                &["action", "cancel", "--help"],
                &["action", "answer", "--help"],
                &["supervise", "--help"],
            ][..],
        ),
        (
            registration,
            &[
                &["registration", "--help"],
                &["registration", "add", "--help"],
                &["registration", "list", "--help"],
                &["registration", "disable", "--help"],
                &["registration", "enable", "--help"],
                &["registration", "remove", "--help"],
            ],
        ),
    ] {
        let names = names(&sample);
        assert!(names.len() >= 5, "{sample}");
        for command in commands {
            let help = run(*command, "").stdout;
            let (_, told) = help.split_once("JSON (--json)").expect(&help);
            assert!(told.contains("Exit codes"), "{command:?}");
            for name in &names {
                assert!(has_word(told, name), "{command:?}: {name}");
            }
        }
    }
}
