use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use rvc_durable::{ActionId, Durable, Phase, Update};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::command::action::{Form, JSON_HELP, Report};
use crate::database::Database;
use crate::sheet::Sheet;
use crate::stop;
use crate::supervision::{self, Supervision};

/// Drives the actions of a database to their outcomes
///
/// Runs until Ctrl-C or SIGTERM, which end it in order: it finishes the steps in hand, for at
/// most --close-grace. A second one ends it at once. Whatever else ends it, even SIGKILL, loses
/// nothing: start it again. Several may run on one database.
/// Prints an action whenever its phase changes.
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct Supervise {
    #[command(flatten)]
    database: Database,

    /// End, with exit code 0, when nothing is open and no clean-up is due
    #[arg(long)]
    until_idle: bool,

    #[command(flatten)]
    supervision: Supervision,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Supervise {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
        runtime.block_on(self.supervise())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn supervise(self) -> anyhow::Result<()> {
        let stopped = stop::requested()?;
        let durable = self.database.open_for(&self.supervision).await?;
        let form = Form::of_stdout(self.json);
        drive(&durable, form, self.until_idle, stopped).await
    }
}

/// Supervises and prints until it is `stopped`, nothing is left to do, or it cannot go on.
async fn drive(
    durable: &Durable,
    form: Form,
    until_idle: bool,
    stopped: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut chronicle = Chronicle {
        updates: durable.updates(),
        phases: HashMap::new(),
        sheet: Sheet::start(matches!(form, Form::Json))?,
        form,
    };
    durable.supervise();
    tracing::info!("supervising");
    let idle = async {
        if until_idle {
            durable.idle().await
        } else {
            std::future::pending().await
        }
    };
    let ended = tokio::select! {
        ended = chronicle.keep(durable) => ended,
        idle = idle => idle.context("cannot tell whether anything is open"),
        failure = supervision::failed(durable) => Err(failure),
        () = stopped => Ok(()),
    };
    supervision::close(durable).await?;
    ended?;
    match tokio::time::timeout(LAST_LINES, chronicle.rest(durable)).await {
        Ok(printed) => printed,
        Err(_) => bail!("the last changes could not be printed; `rvc action list` has them"),
    }
}

/// Prints what becomes of actions.
struct Chronicle {
    updates: Receiver<Update>,
    /// The phases that were printed last, of actions with something left to do.
    phases: HashMap<ActionId, Phase>,
    form: Form,
    sheet: Sheet,
}

impl Chronicle {
    /// Prints until it cannot.
    async fn keep(&mut self, durable: &Durable) -> anyhow::Result<()> {
        loop {
            match self.updates.recv().await {
                Ok(update) => self.print(durable, update).await?,
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(missed, "changes were not printed");
                }
                Err(RecvError::Closed) => return Ok(()),
            }
        }
    }

    /// Prints what has come already.
    async fn rest(&mut self, durable: &Durable) -> anyhow::Result<()> {
        while let Ok(update) = self.updates.try_recv() {
            self.print(durable, update).await?;
        }
        Ok(self.sheet.printed().await?)
    }

    async fn print(&mut self, durable: &Durable, update: Update) -> anyhow::Result<()> {
        let printed = self.phases.get(&update.action);
        if printed == Some(&update.phase) && !update.phase.is_final() {
            return Ok(());
        }
        let read = durable.patiently(|| durable.action(&update.action)).await?;
        let Some(row) = read else {
            return Ok(());
        };
        // The row may be further than the news.
        let is_new = printed != Some(&row.phase);
        if row.is_at_rest() {
            self.phases.remove(&update.action);
        } else {
            self.phases.insert(update.action, row.phase);
        }
        if is_new {
            self.sheet.line(Report::new(row).to_line(self.form)?)?;
            // Waits for a slow reader, unless it is time to end.
            self.sheet.printed().await?;
        }
        Ok(())
    }
}

/// For what is left to print at the end, should the database be away just then, or nobody read.
const LAST_LINES: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervision::tests::broken;

    #[tokio::test]
    async fn a_supervisor_that_panicked_ends_the_command_with_an_error() {
        let durable = broken();

        let ended = drive(
            &durable,
            Form::of_stdout(true),
            false,
            std::future::pending(),
        );

        let error = tokio::time::timeout(Duration::from_secs(60), ended).await;
        let error = error.unwrap().unwrap_err().to_string();
        assert!(error.contains("ended by itself"), "{error}");
    }
}
