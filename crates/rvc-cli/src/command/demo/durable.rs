//! One action across the death of the process that looks after it.

mod supervisor;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rvc_durable::remote::HttpDialer;
use rvc_durable::store::SqliteStore;
use rvc_durable::{
    ActionView, Durable, OwnerId, Phase, Registration, Submission, SupervisorOptions, TransportKind,
};
use rvc_mcp::{ServeConfig, Server, Transport};
use rvc_tasks::{MemorySink, TaskManager};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use self::supervisor::Supervisor;
use crate::command::demo::sleeper::Sleeper;
use crate::command::demo::stopper;
use crate::output::{self, printable};
use crate::progress;
use crate::style::{Colour, Style};

/// Starts a server and an action, kills the process that supervises it in the middle, starts it
/// again, and shows the one outcome.
pub(super) async fn perform(form: Form) -> anyhow::Result<ExitCode> {
    let stage = Stage {
        form,
        started: Instant::now(),
    };
    let played = match timeout(CURTAIN, stage.play()).await {
        Ok(played) => played,
        Err(_) => Err(anyhow::anyhow!("it was not over after {CURTAIN:?}")),
    };
    let fault = match played {
        Err(error) if output::is_broken_pipe(&error) => return Err(error),
        Err(error) => Some(format!("{error:#}")),
        Ok(()) => None,
    };
    stage.closing(fault.as_deref())?;
    Ok(if fault.is_none() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// How it looks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Json,
    Text(Style),
}

struct Stage {
    form: Form,
    started: Instant,
}

impl Stage {
    async fn play(&self) -> anyhow::Result<()> {
        let manager = TaskManager::new("sleeper".parse()?, MemorySink::new());
        let config = ServeConfig::default()
            .with_transport(Transport::StreamableHttp)
            .with_port(0);
        let server = Server::bind(config).await?;
        let url = server.url().expect("streamable HTTP has a URL");
        let sleeper = Sleeper::new(manager.clone());
        let (stop_server, server_stops) = stopper();
        let closed = manager.clone();
        let serving = tokio::spawn(server.run(move || sleeper.clone(), closed, server_stops));
        self.tell(
            "server",
            &format!("{url}  (its tool: sleep_task)"),
            json!({"url": url}),
        )?;

        let folder = Folder::new()?;
        let database = folder.0.join("durable.db");
        let host = Durable::new(
            SqliteStore::open(&database)?,
            HttpDialer::new()?,
            SupervisorOptions::new(),
        );
        host.put_registration(Registration {
            id: "sleeper".parse()?,
            owner: OwnerId::local(),
            endpoint: url.parse()?,
            transport: TransportKind::StreamableHttp,
            enabled: true,
        })
        .await?;
        let submission = Submission::new("demo".parse()?, "sleeper".parse()?, "sleep_task");
        let Value::Object(arguments) = json!({"duration_s": SLEEP_S}) else {
            unreachable!("it is written as an object");
        };
        let row = host.submit(submission.arguments(arguments)).await?;
        let action = row.action.clone();
        self.action("action", "durable, and nothing was sent", &row.into())?;

        let mut first = Supervisor::start(&database, &[])?;
        self.process("supervisor 1", "started", &first)?;
        let view = first.reaches(Phase::Working).await?;
        self.action("action", "started at the server, once", &view)?;
        first.kill()?;
        self.process("supervisor 1", "killed (SIGKILL), in the middle", &first)?;

        let tasks = manager.list(&[]).len();
        ensure!(tasks == 1, "the server runs {tasks} tasks for one action");
        let second = Supervisor::start(&database, &["--until-idle"])?;
        self.process("supervisor 2", "started on the same database", &second)?;
        let outcome = host.outcome(&action).await?;
        let code = second.ends().await?;
        ensure!(code == Some(0), "supervisor 2 ended with {code:?}");

        let row = host.action(&action).await?.context("the action is gone")?;
        let view = ActionView::from(row);
        self.action("outcome", "the one outcome", &view)?;
        let tasks = manager.list(&[]).len();
        ensure!(tasks == 1, "the server ran {tasks} tasks for one action");
        ensure!(
            outcome.phase == Phase::Completed && view.starts == 1,
            "it ended as {} after {} starts",
            outcome.phase,
            view.starts
        );
        drop(stop_server);
        serving.await??;
        Ok(())
    }

    fn process(&self, who: &str, did: &str, supervisor: &Supervisor) -> anyhow::Result<()> {
        let pid = supervisor.pid();
        self.tell(
            who,
            &format!("{did}  (pid {pid})"),
            json!({"did": did, "pid": pid}),
        )
    }

    fn action(&self, who: &str, told: &str, view: &ActionView) -> anyhow::Result<()> {
        let mut line = format!("{told}: phase {}, starts {}", view.phase, view.starts);
        if let Some(result) = &view.result {
            line = format!("{line}, result {}", printable(&result.text));
        } else if let Some(told) = &view.progress {
            line = format!("{line}, {}", progress::shown(told));
        }
        self.tell(who, &line, json!({"told": told, "action": view}))
    }

    fn tell(&self, who: &str, line: &str, mut fields: Value) -> anyhow::Result<()> {
        let at = self.started.elapsed();
        match self.form {
            Form::Json => {
                fields["kind"] = who.split(' ').next().into();
                fields["who"] = who.into();
                fields["at_ms"] = u64::try_from(at.as_millis())?.into();
                output::line(fields.to_string())?;
            }
            Form::Text(style) => {
                let who = style.paint(Colour::Bold, &format!("{who:<13}"));
                output::line(format!("{:>7.2} s  {who} {line}", at.as_secs_f64()))?;
            }
        }
        Ok(())
    }

    fn closing(&self, fault: Option<&str>) -> anyhow::Result<()> {
        match self.form {
            Form::Json => {
                let summary = json!({"kind": "summary", "ok": fault.is_none(), "fault": fault});
                output::line(summary.to_string())?;
            }
            Form::Text(style) => output::line(match fault {
                None => style.paint(
                    Colour::Green,
                    "One action, one start, one outcome, across the death of its process.",
                ),
                Some(fault) => style.paint(Colour::Red, &printable(fault)),
            })?,
        }
        Ok(())
    }
}

/// A new folder, which goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("rvc-demo-{}", Uuid::new_v4()));
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Long enough for a process to be started, killed and started again meanwhile.
const SLEEP_S: f64 = 3.0;

/// Much longer than everything takes.
const CURTAIN: Duration = Duration::from_secs(60);
