use std::process::ExitCode;

use clap::Args;
use rvc_durable::store::CancelOutcome;
use rvc_durable::{ActionId, Phase};

use super::{Form, JSON_HELP, Report, missing};
use crate::database::Database;

/// Cancels an action
///
/// It is final when the command returns: no result is delivered afterwards. Whoever supervises
/// asks the server to cancel as well. To cancel twice is harmless; an action that ended otherwise
/// before stays as it is, with exit code 1.
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct Cancel {
    #[command(flatten)]
    database: Database,

    /// The action
    action: ActionId,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Cancel {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let durable = self.database.open_existing().await?;
        if durable.cancel_action(&self.action).await? == CancelOutcome::Unknown {
            return Ok(missing(&self.action));
        }
        let Some(row) = durable.action(&self.action).await? else {
            return Ok(missing(&self.action));
        };
        let is_cancelled = row.phase == Phase::Cancelled;
        Report::new(row).print(Form::of_stdout(self.json))?;
        Ok(if is_cancelled {
            ExitCode::SUCCESS
        } else {
            eprintln!("the action had ended before");
            ExitCode::FAILURE
        })
    }
}
