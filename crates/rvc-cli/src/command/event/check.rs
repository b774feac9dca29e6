use std::process::ExitCode;

use clap::Args;
use rvc_wire::TaskEvent;

use crate::{input, output};

/// Says whether the JSON on standard input is an event
///
/// Prints the event as this version writes it, on one line (exit code 0), or the reason it is
/// refused (exit code 1).
#[derive(Args)]
pub(crate) struct Check {}

impl Check {
    #[expect(clippy::unused_self, reason = "a command runs itself")]
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match TaskEvent::from_json(&input::body()?) {
            Ok(event) => {
                output::line(event.to_json())?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                output::line(output::printable(&error.to_string()))?;
                Ok(ExitCode::FAILURE)
            }
        }
    }
}
