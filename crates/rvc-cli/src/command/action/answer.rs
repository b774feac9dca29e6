use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use rvc_durable::ActionId;
use rvc_durable::store::AnswerOutcome;
use serde_json::Value;

use super::{Form, JSON_HELP, Report, missing};
use crate::database::Database;

/// Answers what a remote task asks for
///
/// `rvc action show` tells the keys. The answer is durable when the command returns; whoever
/// supervises sends it.
#[derive(Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct Answer {
    #[command(flatten)]
    database: Database,

    /// The action
    action: ActionId,

    /// The key of a request and its answer, as JSON; may be repeated
    ///
    /// An elicitation is answered with `{"action": "accept", "content": {…}}`, or with the
    /// action "decline" or "cancel".
    #[arg(long = "input", value_name = "KEY=JSON", required = true, value_parser = input)]
    inputs: Vec<(String, Value)>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Answer {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let durable = self.database.open_existing().await?;
        let answers = self.inputs.into_iter().collect();
        match durable.answer_input(&self.action, answers).await? {
            AnswerOutcome::Stored => {
                let row = durable.action(&self.action).await?;
                Report::new(row.context("the action is gone")?)
                    .print(Form::of_stdout(self.json))?;
                Ok(ExitCode::SUCCESS)
            }
            AnswerOutcome::Unknown => Ok(missing(&self.action)),
            _ => {
                eprintln!("the task does not ask for that, or it was answered before");
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

fn input(text: &str) -> Result<(String, Value), String> {
    let (key, json) = text.split_once('=').ok_or("there is no = in it")?;
    let value = serde_json::from_str(json).map_err(|error| format!("no JSON: {error}"))?;
    Ok((key.to_owned(), value))
}
