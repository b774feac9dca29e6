mod record;
mod recorder;
mod report;
mod scribe;
mod servers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use rvc_inbox::{Accepted, EventService, Handler, NotNow, Rejection};
use tokio::net::TcpListener;

use crate::command::listen::report::Report;
use crate::command::listen::scribe::{Form, Scribe};
use crate::stop;
use crate::style::Style;

/// Receives events, verifies them, and prints each as it comes
///
/// It acknowledges what it prints, so it stands in for the brain: point RVC_CALLBACK_URL of
/// a server at `http://ADDR/api/agent/events`. A duplicate is acknowledged and marked, a gap in
/// `seq` is marked, and a request that is refused is answered with 400, 401, 408 or 413 and
/// printed with its reason. Ctrl-C or SIGTERM ends it in order, with exit code 0.
///
/// Where standard output is read too slowly, an event that is not printed within 2 s is answered
/// with 503, and comes again. With --record an event is acknowledged when it is recorded; then
/// lines that find no room on standard output are counted there and not shown.
///
/// Everybody on the machine can read a command line (`ps`), so --env-file is the better way to
/// give secrets. Several secrets for one server are all tried, so that one can be rotated.
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct Listen {
    /// Where to listen; port 0 takes a free one, which the log tells
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8000")]
    addr: String,

    /// The path that events are sent to
    #[arg(long, value_name = "PATH", default_value = "/api/agent/events")]
    path: String,

    /// A server and the secret it signs with; may be repeated, and is visible in `ps`
    #[arg(
        long = "secret",
        value_name = "SERVER=SECRET",
        required_unless_present = "env_file"
    )]
    // Not parsed by clap, whose errors repeat the value.
    secrets: Vec<String>,

    /// A file with a line SERVER=SECRET for each server
    ///
    /// Empty lines and lines that begin with # are skipped. Everything after the first = is the
    /// secret, quotes included.
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,

    /// Append the JSON lines to a file as well, each before its event is acknowledged
    ///
    /// What a process that was killed left of a line is a line of its own. It was never
    /// acknowledged.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl Listen {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
        runtime.block_on(self.listen())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn listen(self) -> anyhow::Result<()> {
        let inbox = servers::inbox(&self.secrets, self.env_file.as_deref())?;
        let form = if self.json {
            Form::Json
        } else {
            Form::Text(Style::of_stdout())
        };
        let scribe = Arc::new(Scribe::open(form, self.record.as_deref())?);
        let stopped = stop::requested_for_sure(LONGEST_END)?;
        let listener = TcpListener::bind(&self.addr)
            .await
            .with_context(|| format!("cannot listen on {}", self.addr))?;
        let address = listener.local_addr().context("cannot listen")?;
        tracing::info!(url = %format_args!("http://{address}{}", self.path), "listening for events");

        let service = EventService::builder(inbox, Printer(Arc::clone(&scribe)))
            .path(self.path)
            .build();
        let end = async {
            tokio::select! {
                () = stopped => {}
                () = scribe.failed() => {}
            }
        };
        rvc_inbox::serve(listener, service, end).await;
        scribe.finish().await.context("cannot print")
    }
}

struct Printer(Arc<Scribe>);

impl Handler for Printer {
    async fn handle(&self, accepted: Accepted) -> Result<(), NotNow> {
        self.0
            .keep(&Report::event(&accepted))
            .await
            .map_err(|error| NotNow::new(error.to_string()))
    }

    fn duplicate(&self, accepted: &Accepted) {
        self.0.note(&Report::event(accepted));
    }

    fn rejected(&self, rejection: &Rejection) {
        self.0.note(&Report::refusal(rejection));
    }
}

const JSON_HELP: &str = r#"JSON lines (--json, --record):
  {"received_at": "2026-06-12T14:03:00.123Z",   when it came, in UTC
   "verdict": "ok",                             or why it is refused, in one word
   "kind": "new",                               or "duplicate"
   "sighting": "known",                         what was known of its task: "first" nothing,
                                                "late" a later event, "again" another task of
                                                the same id
   "gap": null,                                 or {"first": 2, "last": 3}: these seq are missing
   "event": {…}}                                the event as the contract has it
  {"received_at": …, "verdict": "stale", "status": 401, "reason": "timestamp is 301 s behind …"}
  {"not_shown": 12}                             --json only: so many lines found no room here"#;

/// Longer than the 5 s for requests under way, and the last lines.
const LONGEST_END: Duration = Duration::from_secs(9);
