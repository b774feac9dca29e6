use std::process::ExitCode;

use clap::Args;
use rvc_durable::ActionId;

use super::{Form, JSON_HELP, Report, missing};
use crate::database::Database;

/// Shows all that is known of an action
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct Show {
    #[command(flatten)]
    database: Database,

    /// The action
    action: ActionId,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let durable = self.database.open_existing().await?;
        let Some(row) = durable.action(&self.action).await? else {
            return Ok(missing(&self.action));
        };
        Report::new(row).print_whole(Form::of_stdout(self.json))?;
        Ok(ExitCode::SUCCESS)
    }
}
