//! The other side: receives events, and polls whenever events alone cannot be trusted.
//!
//! ```sh
//! export RVC_EVENT_SECRET=not-for-production
//! RVC_CALLBACK_URL=http://127.0.0.1:8000/api/agent/events \
//!     cargo run --example sleeper -- --transport streamable-http --log pretty
//! # in a second terminal
//! cargo run --example brain -- --log pretty --call sleep_task --arguments '{"duration_s": 8}'
//! ```
//!
//! Stop the brain while the task runs, start it again without `--call`: it knows from its notes
//! what it was waiting for and asks the server. Push is the optimisation, poll is the truth: it
//! polls at its start, when events are missing, and now and then while something runs, because
//! nothing comes after a last event that was lost.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;
use rvc_inbox::{Accepted, EventService, Inbox, NotNow, Sighting};
use rvc_mcp::logging::LogFormat;
use rvc_sign::Secret;
use rvc_wire::{EventType, Map, ServerName, TaskId, TaskInfo, TaskState, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;

/// A brain for one server.
#[derive(Debug, Parser)]
struct Flags {
    /// The server whose events are accepted
    #[arg(long, default_value = "sleeper")]
    server: ServerName,
    /// Where that server speaks MCP
    #[arg(long, default_value = "http://127.0.0.1:9100/mcp")]
    mcp: String,
    /// Where to listen for events
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: String,
    /// The file that keeps over a restart what is known
    #[arg(long, default_value_os_t = std::env::temp_dir().join("rvc-brain.json"))]
    notes: PathBuf,
    /// A tool to call at the start
    #[arg(long)]
    call: Option<String>,
    /// The arguments of that call
    #[arg(long, requires = "call", default_value = "{}")]
    arguments: String,
    /// How often to poll while something runs, in seconds
    #[arg(long, default_value = "30")]
    poll_every: u64,
    /// How the log is written: json or pretty
    #[arg(long, default_value = "json")]
    log: LogFormat,
    /// The secret that the server signs with
    #[arg(long, env = "RVC_EVENT_SECRET", hide_env_values = true)]
    secret: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    rvc_examples::run(flags.log, brain(&flags)).await
}

async fn brain(flags: &Flags) -> anyhow::Result<()> {
    let notes = Arc::new(Notebook::open(flags.notes.clone())?);
    let poll_now = Arc::new(Notify::new());

    let (secret, warning) = Secret::from_config(flags.secret.as_bytes())?;
    if let Some(warning) = warning {
        tracing::warn!("the secret: {warning}");
    }
    let inbox = Inbox::builder()
        .server(flags.server.clone(), [secret])
        .build()?;
    let handler = {
        let (notes, poll_now) = (Arc::clone(&notes), Arc::clone(&poll_now));
        move |accepted: Accepted| {
            let taken = take(&accepted, &notes);
            // Also wakes the polling that sleeps while nothing runs.
            if accepted.should_poll() || accepted.sighting == Sighting::First {
                poll_now.notify_one();
            }
            std::future::ready(taken)
        }
    };
    let service = EventService::builder(inbox, handler).build();
    let listener = TcpListener::bind(&flags.listen).await?;
    let stop = async {
        let signal = tokio::signal::ctrl_c().await;
        signal.expect("signals can be listened for");
    };
    tracing::info!(address = %listener.local_addr()?, "listening for events");

    // The receiver is up before the tool is called, so that the first event finds it.
    tokio::select! {
        () = rvc_inbox::serve(listener, service, stop) => Ok(()),
        result = work(flags, &notes, &poll_now) => result,
    }
}

/// Takes one verified event. It is acknowledged after its note is written, never before.
fn take(accepted: &Accepted, notes: &Notebook) -> Result<(), NotNow> {
    let event = &accepted.event;
    // Which event of which task it is stands in the span that the service has put around this.
    tracing::info!(payload = %show(&event.payload), "event");
    let state = match event.event_type {
        EventType::TaskDone => TaskState::Succeeded,
        EventType::TaskFailed => TaskState::Failed,
        _ => TaskState::Running,
    };
    // The server was restarted and drew the same id again: this is another task.
    let created_at = (accepted.sighting == Sighting::Again).then_some(event.ts);
    notes
        .put(&event.task_id, Note { state, created_at })
        .map(drop)
        .map_err(|error| NotNow::new(error.to_string()))
}

/// Calls the tool that the flags name, then polls for ever.
async fn work(flags: &Flags, notes: &Notebook, poll_now: &Notify) -> anyhow::Result<()> {
    if let Some(tool) = &flags.call {
        let arguments = serde_json::from_str(&flags.arguments).context("--arguments")?;
        let info: TaskInfo = call(&flags.mcp, tool, arguments).await?;
        tracing::info!(task_id = %info.task_id, tool, "started");
        notes.put(&info.task_id, Note::of(&info))?;
    }
    loop {
        if let Err(error) = reconcile(&flags.mcp, notes).await {
            // Nothing follows from silence: the server may be starting.
            tracing::warn!(error = format!("{error:#}"), "cannot poll");
        }
        // Until an event calls for it, or the pause is over and something runs.
        let pause = Duration::from_secs(flags.poll_every);
        while timeout(pause, poll_now.notified()).await.is_err() && notes.running().is_empty() {}
    }
}

/// Compares the server's tasks with the notes, and corrects the notes.
async fn reconcile(url: &str, notes: &Notebook) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Listed {
        tasks: Vec<TaskInfo>,
    }
    let waiting_for = notes.running();
    let Listed { tasks } = call(url, "list_tasks", Map::new()).await?;
    for info in &tasks {
        if notes.put(&info.task_id, Note::of(info))? {
            tracing::info!(task_id = %info.task_id, state = %info.state, "learned by polling");
        }
    }
    for lost in waiting_for {
        if !tasks.iter().any(|info| info.task_id == lost) {
            // The server does not know it: it was restarted, and the work is gone.
            tracing::warn!(task_id = %lost, error_code = "SERVER_RESTARTED", "lost");
            notes.put(
                &lost,
                Note {
                    state: TaskState::Failed,
                    created_at: None,
                },
            )?;
        }
    }
    Ok(())
}

/// Calls a tool on a connection of its own, so that a restarted server is no special case.
async fn call<T: DeserializeOwned>(url: &str, tool: &str, arguments: Map) -> anyhow::Result<T> {
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let exchange = async {
        let client = ().serve(StreamableHttpClientTransport::from_uri(url)).await?;
        let result = client.call_tool(request).await?;
        client.cancel().await?;
        anyhow::Ok(result)
    };
    let result = timeout(Duration::from_secs(30), exchange)
        .await
        .context("no answer in 30 s")??;
    let text = result
        .content
        .first()
        .and_then(|block| block.as_text())
        .context("no text")?;
    ensure!(
        result.is_error != Some(true),
        "{tool} refused: {}",
        text.text
    );
    serde_json::from_str(&text.text).with_context(|| format!("{tool} answered {}", text.text))
}

/// What the brain knows of each task, in memory and in a file.
struct Notebook {
    path: PathBuf,
    notes: Mutex<BTreeMap<TaskId, Note>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    state: TaskState,
    /// When the server created it. An event does not say.
    created_at: Option<Timestamp>,
}

impl Note {
    fn of(info: &TaskInfo) -> Self {
        Self {
            state: info.state,
            created_at: Some(info.created_at),
        }
    }
}

impl Notebook {
    fn open(path: PathBuf) -> anyhow::Result<Self> {
        let notes = match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).with_context(|| format!("{}", path.display()))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            path,
            notes: Mutex::new(notes),
        })
    }

    fn running(&self) -> Vec<TaskId> {
        let notes = self.notes.lock().expect("nobody panics while holding it");
        let running = notes
            .iter()
            .filter(|(_, note)| note.state == TaskState::Running);
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Writes a note down and answers whether it says something new.
    ///
    /// An end stays: a poll's answer that was under way while the end came is older than it. Only
    /// another creation under the same id, which is short and may be drawn again, replaces it.
    fn put(&self, id: &TaskId, mut note: Note) -> std::io::Result<bool> {
        let mut notes = self.notes.lock().expect("nobody panics while holding it");
        if let Some(known) = notes.get(id) {
            note.created_at = note.created_at.or(known.created_at);
            let same_task = known.created_at.is_none() || note.created_at == known.created_at;
            if same_task && known.state.is_terminal() || note == *known {
                return Ok(false);
            }
        }
        let mut changed = notes.clone();
        let is_news = changed
            .insert(id.clone(), note.clone())
            .is_none_or(|old| old.state != note.state);
        // Renamed into place, so that a crash leaves the old file or the new one, never half of it.
        let draft = self.path.with_extension("draft");
        std::fs::write(&draft, serde_json::to_vec_pretty(&changed)?)?;
        std::fs::rename(&draft, &self.path)?;
        *notes = changed;
        Ok(is_news)
    }
}

fn show(payload: &Map) -> String {
    serde_json::to_string(payload).expect("its keys are text")
}
