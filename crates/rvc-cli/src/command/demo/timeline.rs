use std::io;
use std::time::Instant;

use rvc_wire::{EventType, TaskEvent, TaskId, TaskState};
use serde_json::{Value, json};

use crate::command::demo::judge::Outcome;
use crate::output::printable;
use crate::sheet::Sheet;
use crate::style::{Colour, Style};

/// How the timeline looks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Json,
    Text(Style),
}

/// Prints what happens when it happens.
pub(crate) struct Timeline {
    form: Form,
    started: Instant,
    sheet: Sheet,
}

impl Timeline {
    pub(crate) fn start(form: Form) -> anyhow::Result<Self> {
        Ok(Self {
            form,
            started: Instant::now(),
            sheet: Sheet::start(matches!(form, Form::Json))?,
        })
    }

    pub(crate) fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    /// Prints what takes part.
    pub(crate) fn opening(&self, server: &str, receiver: &str) -> io::Result<()> {
        match self.form {
            Form::Json => self.json(&json!({
                "kind": "opening", "server": server, "receiver": receiver,
            })),
            Form::Text(style) => {
                let title = "Long robot work over MCP: started at once, told by signed events, \
                             polled, cancelled.";
                self.sheet.line(style.paint(Colour::Bold, title))?;
                self.sheet
                    .line(format!("  server    {server}  (MCP; its tool: sleep_task)"))?;
                self.sheet.line(format!(
                    "  receiver  {receiver}  (HMAC-SHA256, a new secret)"
                ))?;
                self.sheet.line("")?;
                let head = row("time", "task", "seq", &what("what"), "", "");
                self.sheet.line(style.paint(Colour::Dim, head.trim_end()))
            }
        }
    }

    /// Prints a step of the client: a tool that it called, and what it was told.
    pub(crate) fn step(&self, step: &str, task: Option<&TaskId>, told: &Value) -> io::Result<()> {
        match self.form {
            Form::Json => self.json(&json!({
                "kind": "step", "at_ms": self.ms(), "step": step, "task_id": task, "told": told,
            })),
            Form::Text(style) => self.sheet.line(row(
                &self.clock(),
                task.map_or("", TaskId::as_str),
                "",
                &style.paint(Colour::Bold, &what(step)),
                "client  ",
                &printable(&told.to_string()),
            )),
        }
    }

    /// Prints an event that verified.
    pub(crate) fn event(&self, event: &TaskEvent) -> io::Result<()> {
        let TaskEvent {
            event_id,
            task_id,
            event_type,
            seq,
            payload,
            ..
        } = event;
        match self.form {
            Form::Json => self.json(&json!({
                "kind": "event", "at_ms": self.ms(), "task_id": task_id, "seq": seq,
                "type": event_type, "payload": payload, "verified": true, "event_id": event_id,
            })),
            Form::Text(style) => {
                let payload = serde_json::to_string(payload)?;
                self.sheet.line(row(
                    &self.clock(),
                    &printable(task_id.as_str()),
                    &format!("#{seq}"),
                    &paint_type(style, event_type),
                    &style.paint(Colour::Green, "verified"),
                    &style.paint(Colour::Dim, &printable(&payload)),
                ))
            }
        }
    }

    /// Prints a request that the receiver refused.
    pub(crate) fn refusal(&self, verdict: &str, reason: &str) -> io::Result<()> {
        match self.form {
            Form::Json => self.json(&json!({
                "kind": "refusal", "at_ms": self.ms(), "verdict": verdict, "reason": reason,
                "verified": false,
            })),
            Form::Text(style) => self.sheet.line(row(
                &self.clock(),
                "",
                "",
                &what(verdict),
                &style.paint(Colour::Red, "refused "),
                &printable(reason),
            )),
        }
    }

    /// Prints what came of it all.
    pub(crate) fn closing(&self, outcomes: &[Outcome], faults: &[String]) -> io::Result<()> {
        match self.form {
            Form::Json => self.json(&summary(outcomes, faults, self.ms())),
            Form::Text(style) => self.closing_text(outcomes, faults, style),
        }
    }

    fn closing_text(
        &self,
        outcomes: &[Outcome],
        faults: &[String],
        style: Style,
    ) -> io::Result<()> {
        self.sheet.line("")?;
        for outcome in outcomes {
            let state = outcome.state.map_or("unknown", TaskState::as_str);
            let fired = match outcome.triggers.as_slice() {
                [] => String::new(),
                kinds => format!("; fired: {}", printable(&kinds.join(", "))),
            };
            let line = format!(
                "  {:<12}  {state:<10}  {} of {} events arrived{fired}",
                printable(outcome.task.as_str()),
                outcome.arrived,
                outcome.sent,
            );
            self.sheet.line(line)?;
        }
        self.sheet.line("")?;
        for fault in faults {
            self.sheet
                .line(style.paint(Colour::Red, &format!("  {}", printable(fault))))?;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        if faults.is_empty() {
            let events: u64 = outcomes.iter().map(|outcome| outcome.arrived).sum();
            let done = format!(
                "All {events} events arrived, were verified, and came in order. All {} tasks ended \
                 as they should. ({seconds:.1} s)",
                outcomes.len()
            );
            self.sheet.line(style.paint(Colour::Green, &done))?;
            self.sheet
                .line("Next: rvc listen shows the events of a server of your own.")
        } else {
            let failed = format!("Not everything went as it should. ({seconds:.1} s)");
            self.sheet.line(style.paint(Colour::Red, &failed))?;
            self.sheet
                .line("RUST_LOG=info rvc demo --log pretty tells more.")
        }
    }

    fn json(&self, line: &Value) -> io::Result<()> {
        self.sheet.line(line.to_string())
    }

    fn ms(&self) -> u64 {
        self.started
            .elapsed()
            .as_millis()
            .try_into()
            .unwrap_or(u64::MAX)
    }

    fn clock(&self) -> String {
        format!("{:.2} s", self.started.elapsed().as_secs_f64())
    }
}

fn row(time: &str, task: &str, seq: &str, what: &str, source: &str, told: &str) -> String {
    format!("{time:>8}  {task:<12} {seq:>4}  {what}  {source}  {told}")
}

/// What happened, as wide as its column.
fn what(text: &str) -> String {
    format!("{:<13}", printable(text))
}

fn paint_type(style: Style, event_type: &EventType) -> String {
    let text = what(event_type.as_str());
    match event_type {
        EventType::TriggerFired => style.paint(Colour::Yellow, &text),
        EventType::TaskDone => style.paint(Colour::Green, &text),
        EventType::TaskFailed => style.paint(Colour::Red, &text),
        _ => text,
    }
}

fn summary(outcomes: &[Outcome], faults: &[String], duration_ms: u64) -> Value {
    let tasks: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            json!({
                "task_id": outcome.task,
                "state": outcome.state,
                "events_sent": outcome.sent,
                "events_verified": outcome.arrived,
                "triggers_fired": outcome.triggers,
            })
        })
        .collect();
    json!({
        "kind": "summary",
        "ok": faults.is_empty(),
        "duration_ms": duration_ms,
        "tasks": tasks,
        "faults": faults,
    })
}
