mod client;
mod durable;
mod judge;
mod receiver;
mod script;
mod sent;
mod sleeper;
mod timeline;

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use rvc_inbox::{EventService, Inbox};
use rvc_mcp::{ServeConfig, Server, Transport};
use rvc_poster::{Endpoint, EventPoster};
use rvc_sign::Secret;
use rvc_tasks::TaskManager;
use rvc_wire::ServerName;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::command::demo::client::Client;
use crate::command::demo::judge::{Expected, Outcome, Seen, judge};
use crate::command::demo::receiver::{Received, Receiver};
use crate::command::demo::sent::CountingPoster;
use crate::command::demo::sleeper::Sleeper;
use crate::command::demo::timeline::{Form, Timeline};
use crate::style::Style;

/// Shows the whole contract at work in one process, in a few seconds
///
/// It starts an MCP server over streamable HTTP, a receiver that verifies signed events, and an
/// MCP client, all on loopback. The client starts three tasks: one has triggers and succeeds, one
/// fails, one is cancelled. Every call, answer and event is printed as it happens. The exit code
/// is 0 only if every event that was sent arrived, verified and in order, and every task ended as
/// it should; else it is 1.
///
/// It logs only if RUST_LOG or --log is given.
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct Demo {
    /// Show instead that an action's outcome survives the death of its process
    ///
    /// Starts a server and an action, kills the process that supervises the action in the middle
    /// (SIGKILL), starts it again, and shows the one outcome. The exit code is 0 only if the
    /// server was asked to start once and the action succeeded.
    #[arg(long)]
    durable: bool,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.durable {
            let form = if self.json {
                durable::Form::Json
            } else {
                durable::Form::Text(Style::of_stdout())
            };
            let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
            return runtime.block_on(durable::perform(form));
        }
        let form = if self.json {
            Form::Json
        } else {
            Form::Text(Style::of_stdout())
        };
        let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
        runtime.block_on(perform(&Arc::new(Timeline::start(form)?)))
    }
}

async fn perform(timeline: &Arc<Timeline>) -> anyhow::Result<ExitCode> {
    let (outcomes, faults) = tokio::select! {
        ended = timeout(CURTAIN, show(timeline)) => match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => (Vec::new(), vec![format!("{error:#}")]),
            Err(_) => (Vec::new(), vec![format!("it was not over after {CURTAIN:?}")]),
        },
        () = timeline.sheet().failed() => (Vec::new(), Vec::new()),
    };
    timeline.closing(&outcomes, &faults)?;
    let printed = timeline.sheet().finish(APPLAUSE).await;
    printed.context("cannot print")?;
    Ok(if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs receiver, server and client from beginning to end, and judges what was seen.
async fn show(timeline: &Arc<Timeline>) -> anyhow::Result<(Vec<Outcome>, Vec<String>)> {
    let name: ServerName = "sleeper".parse()?;
    let secret = new_secret()?;

    let inbox = Inbox::builder()
        .server(name.clone(), [secret.clone()])
        .build()?;
    let received = Arc::new(Received::new());
    let handler = Receiver {
        received: Arc::clone(&received),
        timeline: Arc::clone(timeline),
    };
    let service = EventService::builder(inbox, handler).build();
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("cannot listen on loopback")?;
    let callback = format!("http://{}/api/agent/events", listener.local_addr()?);
    let (stop_receiver, receiver_stops) = stopper();
    let receiving = tokio::spawn(rvc_inbox::serve(listener, service, receiver_stops));

    let endpoint = Endpoint::new(&callback, secret)?;
    let poster = CountingPoster::new(EventPoster::builder(name.clone(), endpoint).build()?);
    let manager = TaskManager::new(name, poster.clone());
    let config = ServeConfig::default()
        .with_transport(Transport::StreamableHttp)
        .with_port(0);
    let server = Server::bind(config).await?;
    let url = server.url().expect("streamable HTTP has a URL");
    timeline.opening(&url, &callback)?;
    let sleeper = Sleeper::new(manager.clone());
    let (stop_server, server_stops) = stopper();
    let serving = tokio::spawn(server.run(move || sleeper.clone(), manager, server_stops));

    let client = Client::connect(&url).await?;
    let expected = script::play(&client, &received, timeline).await?;
    let states = script::reconcile(&client, timeline).await?;
    client.close().await;

    // The server's end delivers what is still on its way; the receiver's end answers it.
    drop(stop_server);
    serving.await??;
    drop(stop_receiver);
    receiving.await?;

    let (arrived, refused) = received.take();
    Ok(conclude(
        &expected,
        &Seen {
            sent: poster.sent(),
            arrived,
            states: states.into_iter().collect(),
            refused,
        },
    ))
}

fn conclude(expected: &[Expected], seen: &Seen) -> (Vec<Outcome>, Vec<String>) {
    let outcomes = judge(expected, seen);
    let of_tasks = outcomes.iter().flat_map(|outcome| {
        let task = &outcome.task;
        outcome
            .faults
            .iter()
            .map(move |fault| format!("{task}: {fault}"))
    });
    let of_receiver = seen
        .refused
        .iter()
        .map(|verdict| format!("the receiver refused a request: {verdict}"));
    let faults = of_tasks.chain(of_receiver).collect();
    (outcomes, faults)
}

/// A future that is ready once the other half is dropped.
fn stopper() -> (
    oneshot::Sender<()>,
    impl Future<Output = ()> + Send + 'static,
) {
    let (stop, stopped) = oneshot::channel();
    let stops = async {
        let _ = stopped.await;
    };
    (stop, stops)
}

/// A secret that lives as long as the demo: what seeds the hash maps of a process is random.
fn new_secret() -> anyhow::Result<Secret> {
    let words = [(); 4].map(|()| format!("{:016x}", RandomState::new().hash_one("secret")));
    Ok(Secret::new(words.concat().as_bytes())?)
}

/// For whoever reads slowly.
const APPLAUSE: Duration = Duration::from_secs(2);

/// Longer than everything takes, and under the ten seconds that a demo may take.
const CURTAIN: Duration = Duration::from_secs(9);

const JSON_HELP: &str = r#"JSON lines (--json), by "kind":
  opening  server, receiver: the URLs
  step     at_ms, step (the tool that the client called), task_id or null, told (its answer)
  event    at_ms, task_id, seq, type, payload, verified (true), event_id
  refusal  at_ms, verdict, reason, verified (false)
  summary  ok, duration_ms, faults (texts), tasks: each with task_id, state, events_sent,
           events_verified, triggers_fired; always the last line
With --durable, each with at_ms and who:
  server      url
  action      told, action (as `rvc action show --json` prints it); also for kind "outcome"
  supervisor  did, pid
  summary     ok, fault (a text or null); always the last line"#;
