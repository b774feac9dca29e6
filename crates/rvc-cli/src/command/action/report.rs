use std::io;

use rvc_durable::{ActionState, ActionView, ErrorCode, Linkage};

use crate::output::{self, printable};
use crate::progress;
use crate::style::{Colour, Style};

/// How actions are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Json,
    Text(Style),
}

impl Form {
    pub(crate) fn of_stdout(json: bool) -> Self {
        if json {
            Self::Json
        } else {
            Self::Text(Style::of_stdout())
        }
    }
}

/// An action as it is printed.
pub(crate) struct Report(ActionView);

impl Report {
    pub(crate) fn new(row: Linkage) -> Self {
        Self(row.into())
    }

    /// Prints it on one line.
    pub(crate) fn print(&self, form: Form) -> io::Result<()> {
        output::line(self.to_line(form)?)
    }

    /// As it is printed on one line.
    pub(crate) fn to_line(&self, form: Form) -> io::Result<String> {
        Ok(match form {
            Form::Json => serde_json::to_string(&self.0)?,
            Form::Text(style) => self.line(style),
        })
    }

    /// Prints all that is known of it.
    pub(crate) fn print_whole(&self, form: Form) -> io::Result<()> {
        match form {
            Form::Json => self.print(form),
            Form::Text(style) => output::line(self.page(style)),
        }
    }

    fn line(&self, style: Style) -> String {
        let view = &self.0;
        let told = match (&view.error_code, &view.result) {
            (Some(code), _) => {
                let message = view.message.as_deref().unwrap_or_default();
                format!("{code}: {message}")
            }
            (None, Some(result)) => result.text.clone(),
            (None, None) => view.progress.clone().unwrap_or_default(),
        };
        format!(
            "{}  {}  {}  {}",
            printable(view.action_id.as_str()),
            self.phase(style),
            printable(&view.tool),
            // One line, however long the tool's answer is.
            progress::shown(&told.chars().take(120).collect::<String>()),
        )
        .trim_end()
        .to_owned()
    }

    fn page(&self, style: Style) -> String {
        let view = &self.0;
        let mut lines = vec![
            ("action", printable(view.action_id.as_str())),
            ("run", printable(view.run_id.as_str())),
            ("registration", printable(view.registration_id.as_str())),
            ("tool", printable(&view.tool)),
            ("phase", self.phase(style)),
            ("starts", view.starts.to_string()),
            ("polls", view.polls.to_string()),
        ];
        let optional = [
            ("remote task", view.remote_task_id.as_deref()),
            ("remote status", view.remote_status.as_deref()),
            (
                "error code",
                view.error_code.as_ref().map(ErrorCode::as_str),
            ),
            ("message", view.message.as_deref()),
            ("last error", view.last_error.as_deref()),
            (
                "result",
                view.result.as_ref().map(|result| result.text.as_str()),
            ),
        ];
        for (name, value) in optional {
            lines.extend(value.map(|value| (name, printable(value))));
        }
        if let Some(progress) = &view.progress {
            lines.push(("progress", progress::shown(progress)));
        }
        for (key, request) in &view.input_requests {
            lines.push(("asks", printable(&format!("{key}: {request}"))));
        }
        lines
            .iter()
            .map(|(name, value)| format!("{name:<14}{value}"))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn phase(&self, style: Style) -> String {
        let phase = self.0.phase.as_str();
        match self.0.action_state {
            ActionState::Completed => style.paint(Colour::Green, phase),
            ActionState::Failed => style.paint(Colour::Red, phase),
            ActionState::Cancelled => style.paint(Colour::Yellow, phase),
            ActionState::Pending => phase.to_owned(),
        }
    }
}

pub(crate) const JSON_HELP: &str = "\
JSON (--json), one object a line for each action:
  action_id, run_id, registration_id, tool
  phase           intent, sending, working, input_required, accepted, and then for ever completed,
                  failed, cancelled, expired or unknown
  action_state    pending, completed, failed (also for expired and unknown) or cancelled
  remote_task_id  the server's id of the task, or null
  remote_status   the server's last word on it, or null
  progress        the newest progress, or null
  starts, polls   how often a start may have reached the server, and the task's state was read
  input_requests  what the task asks for, by key
  is_error        whether the tool says that it failed; null without a result
  error_code      how the action failed or was cancelled, in one word, or null
  message         the same for a reader, or null
  result          the tool's result, or null: content, structured_content, metadata, is_error,
                  text
  last_error      what went wrong last, while there is no outcome, or null

Exit codes:
  0  done; with start --wait: the tool succeeded
  1  the answer is no: refused, no such action, over before, not asked for; with start --wait: the
     action failed or was cancelled
  2  wrong usage, or the command could not be carried out";
