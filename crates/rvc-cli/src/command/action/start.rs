mod arguments;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use rvc_durable::{
    ActionId, Durable, Endpoint, InputHandling, OwnerId, Registration, RegistrationId, RunId,
    StartPolicy, Submission, SubmitError, TransportKind,
};
use uuid::Uuid;

use self::arguments::ToolArguments;
use super::{Form, JSON_HELP, Report};
use crate::command::registration;
use crate::database::Database;
use crate::output::printable;
use crate::progress::ProgressLine;
use crate::supervision::{self, Supervision};
use crate::{duration, stop};

/// Starts a tool call whose outcome survives any crash
///
/// The action is durable when it is printed. Whoever supervises the database drives it to its one
/// outcome: `rvc supervise`, or with --wait this process. The same action with the same request
/// again is harmless, with another one it is refused (exit code 1).
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct Start {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    server: ServerChoice,

    /// How the server of --url is spoken to, streamable-http or sse; the first, if it is new
    #[arg(long, conflicts_with = "registration")]
    transport: Option<TransportKind>,

    /// The tool
    #[arg(long, value_name = "TOOL")]
    tool: String,

    #[command(flatten)]
    arguments: ToolArguments,

    /// The action's id, the key of everything; a new one, if it is not given
    #[arg(long, value_name = "ACTION")]
    action_id: Option<ActionId>,

    /// The run it belongs to; one named after the action, if it is not given
    #[arg(long, value_name = "RUN")]
    run_id: Option<RunId>,

    /// The language model's id of the call, for the logs
    #[arg(long, value_name = "CALL")]
    tool_call_id: Option<String>,

    /// The language model's provider, for the logs
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,

    /// What to do when the answer to the start is lost
    ///
    /// `at_most_once` never sends twice: the action fails with START_OUTCOME_UNKNOWN.
    /// `server_dedup` sends again with the same key, for servers that promise to honour it.
    /// `idempotent_tool` sends again, and the tool may run twice.
    #[arg(long, value_name = "POLICY", default_value = "at_most_once")]
    policy: StartPolicy,

    /// How long the action may take, such as 10m; then it fails and the task is cancelled
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    deadline: Option<Duration>,

    /// How long the server is taken to keep the task when it does not say so itself, from the
    /// sending of the start
    ///
    /// When it is over and the server cannot be reached, the action fails with
    /// REMOTE_TASK_EXPIRED; without it the action waits for the server.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    remote_task_ttl: Option<Duration>,

    /// Supervise in this process, and end with the outcome
    ///
    /// Prints the action twice: when it is durable, and with its outcome. Other actions that are
    /// due are driven as well.
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    supervision: Supervision,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct ServerChoice {
    /// The server; becomes a registration that is named as its URL
    #[arg(long)]
    // Not parsed by clap, whose errors repeat the value.
    url: Option<String>,

    /// The server, as `rvc registration add` named it
    #[arg(long, value_name = "NAME")]
    registration: Option<RegistrationId>,
}

impl Start {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let arguments = self.arguments.read()?;
        let url = self.server.url.as_deref().map(str::parse::<Endpoint>);
        let endpoint = url.transpose().context("--url is refused")?;
        let durable = self.database.open_for(&self.supervision).await?;
        let new = || Uuid::new_v4().to_string().parse();
        let action = match self.action_id {
            Some(action) => action,
            None => new().context("a UUID is an id")?,
        };
        let registration = match (endpoint, self.server.registration) {
            (Some(endpoint), _) => registered(&durable, endpoint, self.transport).await?,
            (None, Some(name)) => {
                let is_there = registration::find(&durable, &name).await?.is_some();
                // An action that is there already has its outcome, whatever became of the server.
                if !is_there && durable.action(&action).await?.is_none() {
                    return Ok(registration::missing(&name));
                }
                name
            }
            (None, None) => unreachable!("clap requires one of them"),
        };

        let mut submission = Submission::new(action.clone(), registration, self.tool)
            .arguments(arguments)
            .policy(self.policy)
            // `rvc action answer` can answer.
            .input(InputHandling::Surface);
        if let Some(run) = self.run_id {
            submission = submission.run(run);
        }
        if let Some(deadline) = self.deadline {
            submission = submission.execution_deadline(deadline);
        }
        submission.remote_task_ttl = self.remote_task_ttl;
        submission.tool_call_id = self.tool_call_id;
        submission.provider = self.provider;

        let row = match durable.submit(submission).await {
            Ok(row) => row,
            Err(error @ SubmitError::Store { .. }) => {
                let advice = format!("to find out, repeat it with --action-id {action}");
                return Err(anyhow::Error::from(error).context(advice));
            }
            Err(refusal) => {
                eprintln!("refused: {}", printable(&refusal.to_string()));
                return Ok(ExitCode::FAILURE);
            }
        };
        let form = Form::of_stdout(self.json);
        Report::new(row).print(form)?;
        if !self.wait {
            return Ok(ExitCode::SUCCESS);
        }
        let stopped = stop::requested()?;
        let progress = ProgressLine::on_stderr(self.json);
        let Some(row) = supervision::to_outcome(&durable, &action, progress, stopped).await? else {
            bail!("stopped before the outcome; `rvc supervise` goes on with the action");
        };
        let succeeded = row.phase == rvc_durable::Phase::Completed;
        Report::new(row).print(form)?;
        Ok(if succeeded {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// The registration of a URL, which is added if it is not there. One that is disabled stays so.
async fn registered(
    durable: &Durable,
    endpoint: Endpoint,
    transport: Option<TransportKind>,
) -> anyhow::Result<RegistrationId> {
    let id: RegistrationId = endpoint
        .as_str()
        .parse()
        .context("the URL is too long for a name; use `rvc registration add` to name it")?;
    if let Some(known) = registration::find(durable, &id).await? {
        ensure!(
            transport.is_none_or(|transport| transport == known.transport),
            "the server is registered with {}; `rvc registration add` changes that",
            known.transport.as_str()
        );
    } else {
        let registration = Registration {
            id: id.clone(),
            owner: OwnerId::local(),
            endpoint,
            transport: transport.unwrap_or(TransportKind::StreamableHttp),
            enabled: true,
        };
        durable.put_registration(registration).await?;
    }
    Ok(id)
}
