use std::fmt::Write;
use std::time::SystemTime;

use rvc_inbox::{Accepted, Gap, Kind, Rejection, Sighting};
use rvc_wire::Timestamp;
use serde_json::{Value, json};

use crate::output::printable;
use crate::style::{Colour, Style};

/// What is told of one request.
pub(crate) struct Report<'a> {
    received_at: Timestamp,
    what: What<'a>,
}

enum What<'a> {
    Event(&'a Accepted),
    Refusal(&'a Rejection),
}

impl<'a> Report<'a> {
    pub(crate) fn event(accepted: &'a Accepted) -> Self {
        Self {
            received_at: now(),
            what: What::Event(accepted),
        }
    }

    pub(crate) fn refusal(rejection: &'a Rejection) -> Self {
        Self {
            received_at: now(),
            what: What::Refusal(rejection),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self.what {
            What::Event(accepted) => json!({
                "received_at": self.received_at,
                "verdict": "ok",
                "kind": kind(accepted.kind),
                "sighting": sighting(accepted.sighting),
                "gap": accepted.gap.map(|Gap { first, last }| json!({ "first": first, "last": last })),
                "event": accepted.event,
            }),
            What::Refusal(rejection) => json!({
                "received_at": self.received_at,
                "verdict": rejection.verdict(),
                "status": rejection.status().as_u16(),
                "reason": rejection.to_string(),
            }),
        }
    }

    /// One line for people, and one more for each thing to notice.
    pub(crate) fn to_text(&self, style: Style) -> String {
        let received_at = self.received_at.to_string();
        // The time of a timestamp, without its date and the Z.
        let time = style.paint(Colour::Dim, &received_at[11..23]);
        match self.what {
            What::Event(accepted) => format!("{time}  {}", event_text(accepted, style)),
            What::Refusal(rejection) => format!(
                "{time}  {}  {} {}: {}",
                style.paint(Colour::Red, "refused  "),
                rejection.status().as_u16(),
                rejection.verdict(),
                printable(&rejection.to_string()),
            ),
        }
    }
}

fn event_text(accepted: &Accepted, style: Style) -> String {
    let event = &accepted.event;
    let (colour, verdict) = match accepted.kind {
        Kind::New => (Colour::Green, "verified "),
        Kind::Duplicate => (Colour::Yellow, "duplicate"),
    };
    let mut text = format!(
        "{}  {:<12}  {:<12}  {:<14}  {:<13}  {}",
        style.paint(colour, verdict),
        event.server,
        printable(event.task_id.as_str()),
        format!("#{} {}", event.seq, printable(event.tool.as_str())),
        printable(event.event_type.as_str()),
        style.paint(Colour::Dim, &payload(event)),
    );
    let mut note = |what: &str| {
        let line = style.paint(Colour::Yellow, what);
        write!(text, "\n{INDENT}{line}").expect("writing to a string succeeds");
    };
    if let Some(gap) = accepted.gap {
        note(&format!("gap: {gap}; get_task tells what was missed"));
    }
    match accepted.sighting {
        Sighting::Again => note("another task of the same id: the server was restarted"),
        Sighting::Late => note("late: a later event of this task came before"),
        _ => {}
    }
    text
}

fn payload(event: &rvc_wire::TaskEvent) -> String {
    let whole = serde_json::to_string(&event.payload).expect("a map has a JSON form");
    let mut shown = printable(&whole);
    if let Some((cut, _)) = shown.char_indices().nth(MOST_PAYLOAD) {
        shown.truncate(cut);
        shown.push('…');
    }
    shown
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::New => "new",
        Kind::Duplicate => "duplicate",
    }
}

fn sighting(sighting: Sighting) -> &'static str {
    match sighting {
        Sighting::First => "first",
        Sighting::Late => "late",
        Sighting::Again => "again",
        _ => "known",
    }
}

fn now() -> Timestamp {
    let unix_ms = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_millis().try_into().unwrap_or(i64::MAX));
    Timestamp::from_unix_ms(unix_ms).expect("a clock stands before the year 10000")
}

const INDENT: &str = "              ";
const MOST_PAYLOAD: usize = 400;
