use std::process::ExitCode;

use clap::Args;
use rvc_durable::store::Filter;
use rvc_durable::{Phase, RunId};

use super::{Form, JSON_HELP, Report};
use crate::database::Database;

/// Lists actions, the newest first
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct List {
    #[command(flatten)]
    database: Database,

    /// Of this run only
    #[arg(long, value_name = "RUN")]
    run_id: Option<RunId>,

    /// In this phase only; may be repeated
    #[arg(long, value_name = "PHASE")]
    phase: Vec<Phase>,

    /// At most this many
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let durable = self.database.open_existing().await?;
        let mut filter = Filter::all().limit(self.limit.unwrap_or_default());
        if let Some(run) = self.run_id {
            filter = filter.run(run);
        }
        for phase in self.phase {
            filter = filter.phase(phase);
        }
        let form = Form::of_stdout(self.json);
        for row in durable.actions(filter).await? {
            Report::new(row).print(form)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
