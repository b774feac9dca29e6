//! What both engines read and write, in the order of the columns. The SQL is each engine's own.

use std::borrow::Cow;
use std::time::Duration;

use rvc_wire::Map;
use serde_json::Value as Json;

use super::{StoreError, Submitted, Write};
use crate::envelope::ToolResultEnvelope;
use crate::error_code::ErrorCode;
use crate::linkage::{CleanUp, HostKind, Linkage, RemoteTask, Trouble};
use crate::moment::Moment;
use crate::outcome::Outcome;
use crate::phase::Phase;
use crate::plan::RunState;
use crate::registration::Registration;
use crate::submission::{InputHandling, Submission};

/// Every column of a row, in the order that [`linkage`] takes.
pub(super) const COLUMNS: &str = "t.action_id, t.run_id, t.owner_id, t.registration_id, t.host, \
    t.tool, t.arguments, t.policy, t.surfaces_input, t.execution_deadline_at, t.assumed_ttl_ms, \
    t.tool_call_id, t.provider, t.created_at, t.phase, t.starts, t.sent_at, t.kind, \
    t.remote_task_id, t.remote_created_at, t.remote_task_status, t.remote_ended, t.progress, \
    t.remote_ttl_ms, t.poll_interval_ms, t.polls, t.last_polled_at, t.errors, t.gone, \
    t.malformed, t.last_error, t.input_requests, t.clean_up_open, t.cancel_asked, \
    t.cancel_acknowledged_at, t.looked, t.next_due";

/// Those of its outcome, which follow.
pub(super) const OUTCOME: &str = "o.phase, o.error_code, o.message, o.result, o.finished_at";

/// Where they come from.
pub(super) const SOURCE: &str =
    "mcp_action_tasks AS t LEFT JOIN mcp_action_outcomes AS o USING (action_id)";

/// The columns of a registration, in the order that [`registration`] takes.
pub(super) const REGISTRATION: &str = "registration_id, owner_id, endpoint, transport, enabled";

/// A row of an engine, read by the place of its columns.
pub(super) trait Columns {
    fn text(&self, column: usize) -> Result<Option<Cow<'_, str>>, StoreError>;
    fn number(&self, column: usize) -> Result<Option<i64>, StoreError>;
    fn flag(&self, column: usize) -> Result<bool, StoreError>;
}

/// A value for a column.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Text(Option<Cow<'a, str>>),
    Number(Option<i64>),
    Flag(bool),
}

impl<'a> Value<'a> {
    pub(super) fn text(text: &'a str) -> Self {
        Self::Text(Some(Cow::Borrowed(text)))
    }

    fn some_text(text: Option<&'a str>) -> Self {
        Self::Text(text.map(Cow::Borrowed))
    }

    /// As many as fit a column.
    pub(super) fn count(number: impl TryInto<i64>) -> Self {
        Self::Number(Some(number.try_into().unwrap_or(i64::MAX)))
    }

    pub(super) fn moment(moment: Moment) -> Self {
        Self::Number(Some(moment.unix_ms()))
    }

    pub(super) fn some_moment(moment: Option<Moment>) -> Self {
        Self::Number(moment.map(Moment::unix_ms))
    }

    fn some_duration(duration: Option<Duration>) -> Self {
        Self::Number(duration.map(ms))
    }
}

/// Reads a row of [`COLUMNS`] and [`OUTCOME`].
pub(super) fn linkage(row: &impl Columns) -> Result<Linkage, StoreError> {
    let number = |column| Ok::<_, StoreError>(row.number(column)?.unwrap_or(0));
    let count = |column| Ok::<_, StoreError>(u32::try_from(number(column)?).unwrap_or(0));
    let time = |column| Ok::<_, StoreError>(row.number(column)?.map(Moment::from_unix_ms));
    let owned = |column| Ok::<_, StoreError>(row.text(column)?.map(Cow::into_owned));
    let span = |column| Ok::<_, StoreError>(row.number(column)?.map(duration));
    let remote = match row.text(17)? {
        None => None,
        Some(kind) => Some(RemoteTask {
            kind: word(&kind)?,
            id: text(row, 18)?.into_owned(),
            created_at: text(row, 19)?.into_owned(),
            status: row.text(20)?.unwrap_or_default().into_owned(),
            ended: row.flag(21)?,
            progress: owned(22)?,
            ttl: span(23)?,
            poll_interval: span(24)?,
        }),
    };
    let phase: Phase = word(&text(row, 14)?)?;
    Ok(Linkage {
        action: word(&text(row, 0)?)?,
        run: word(&text(row, 1)?)?,
        owner: word(&text(row, 2)?)?,
        registration: word(&text(row, 3)?)?,
        host: match text(row, 4)?.as_ref() {
            "foreign" => HostKind::Foreign,
            _ => HostKind::Ledger,
        },
        tool: text(row, 5)?.into_owned(),
        arguments: json(&text(row, 6)?)?,
        policy: word(&text(row, 7)?)?,
        input: if row.flag(8)? {
            InputHandling::Surface
        } else {
            InputHandling::Unsupported
        },
        deadline_at: time(9)?,
        assumed_ttl: span(10)?,
        tool_call_id: owned(11)?,
        provider: owned(12)?,
        created_at: Moment::from_unix_ms(number(13)?),
        phase,
        starts: count(15)?,
        sent_at: time(16)?,
        remote,
        polls: u64::try_from(number(25)?).unwrap_or(0),
        polled_at: time(26)?,
        trouble: Trouble {
            errors: count(27)?,
            gone: count(28)?,
            malformed: count(29)?,
            last: owned(30)?,
        },
        input_requests: match row.text(31)? {
            None => Map::new(),
            Some(requests) => json(&requests)?,
        },
        clean_up: CleanUp {
            open: row.flag(32)?,
            asked: count(33)?,
            acknowledged_at: time(34)?,
            looked: count(35)?,
        },
        outcome: outcome(row, phase)?,
        finished_at: time(41)?,
        next_due: time(36)?,
    })
}

fn outcome(row: &impl Columns, phase: Phase) -> Result<Option<Outcome>, StoreError> {
    Ok(match row.text(37)? {
        None => None,
        // It was known, and the host cancelled before it was told.
        Some(known) if phase == Phase::Cancelled && known != phase.as_str() => {
            Some(Outcome::cancelled_by_host())
        }
        Some(known) => Some(Outcome {
            phase: word(&known)?,
            error_code: row
                .text(38)?
                .map(|code| ErrorCode::remote(code.into_owned())),
            message: text(row, 39)?.into_owned(),
            result: row
                .text(40)?
                .map(|result| json::<ToolResultEnvelope>(&result))
                .transpose()?,
        }),
    })
}

/// Reads [`REGISTRATION`], which begins at column `first`.
pub(super) fn registration(row: &impl Columns, first: usize) -> Result<Registration, StoreError> {
    Ok(Registration {
        id: word(&text(row, first)?)?,
        owner: word(&text(row, first + 1)?)?,
        endpoint: word(&text(row, first + 2)?)?,
        transport: word(&text(row, first + 3)?)?,
        enabled: row.flag(first + 4)?,
    })
}

/// The state of a run of the ledger, as it is stored.
pub(super) fn run_state(state: &str) -> RunState {
    match state {
        "active" => RunState::Active,
        _ => RunState::Cancelled,
    }
}

/// What a submission asks for: `action_id` to `created_at`, with the hash before the policy.
pub(super) fn intent<'a>(row: &'a Linkage, hash: &'a str) -> [Value<'a>; 15] {
    [
        Value::text(row.action.as_str()),
        Value::text(row.run.as_str()),
        Value::text(row.owner.as_str()),
        Value::text(row.registration.as_str()),
        Value::text(row.host.as_str()),
        Value::text(&row.tool),
        as_json(&row.arguments),
        Value::text(hash),
        Value::text(row.policy.as_str()),
        Value::Flag(row.input == InputHandling::Surface),
        Value::some_moment(row.deadline_at),
        Value::some_duration(row.assumed_ttl),
        Value::some_text(row.tool_call_id.as_deref()),
        Value::some_text(row.provider.as_deref()),
        Value::moment(row.created_at),
    ]
}

/// What a step may change: `phase` to `looked`.
pub(super) fn changes(row: &Linkage) -> [Value<'_>; 22] {
    let remote = row.remote.as_ref();
    [
        Value::text(row.phase.as_str()),
        Value::count(row.starts),
        Value::some_moment(row.sent_at),
        Value::some_text(remote.map(|it| it.kind.as_str())),
        Value::some_text(remote.map(|it| it.id.as_str())),
        Value::some_text(remote.map(|it| it.created_at.as_str())),
        Value::some_text(remote.map(|it| it.status.as_str())),
        Value::Flag(remote.is_some_and(|it| it.ended)),
        Value::some_text(remote.and_then(|it| it.progress.as_deref())),
        Value::some_duration(remote.and_then(|it| it.ttl)),
        Value::some_duration(remote.and_then(|it| it.poll_interval)),
        Value::count(row.polls),
        Value::some_moment(row.polled_at),
        Value::count(row.trouble.errors),
        Value::count(row.trouble.gone),
        Value::count(row.trouble.malformed),
        Value::some_text(row.trouble.last.as_deref()),
        if row.input_requests.is_empty() {
            Value::Text(None)
        } else {
            as_json(&row.input_requests)
        },
        Value::Flag(row.clean_up.open),
        Value::count(row.clean_up.asked),
        Value::some_moment(row.clean_up.acknowledged_at),
        Value::count(row.clean_up.looked),
    ]
}

/// The columns of an outcome.
pub(super) fn outcome_values<'a>(
    row: &'a Linkage,
    outcome: &'a Outcome,
    finished_at: Moment,
) -> [Value<'a>; 7] {
    let result = outcome.result.as_ref();
    let code = outcome.error_code.as_ref();
    [
        Value::text(row.action.as_str()),
        Value::text(outcome.phase.as_str()),
        Value::some_text(code.map(ErrorCode::as_str)),
        Value::text(&outcome.message),
        match result {
            Some(result) => Value::Flag(result.is_error),
            None => Value::Number(None),
        },
        result.map_or(Value::Text(None), as_json),
        Value::moment(finished_at),
    ]
}

/// The columns of a registration.
pub(super) fn registration_values(registration: &Registration) -> [Value<'_>; 5] {
    [
        Value::text(registration.id.as_str()),
        Value::text(registration.owner.as_str()),
        Value::text(registration.endpoint.as_str()),
        Value::text(registration.transport.as_str()),
        Value::Flag(registration.enabled),
    ]
}

/// A column that is never null.
pub(super) fn text(row: &impl Columns, column: usize) -> Result<Cow<'_, str>, StoreError> {
    row.text(column)?.ok_or_else(|| StoreError::Corrupt {
        detail: format!("column {column} is empty"),
    })
}

/// A word of the schema, or an id.
pub(super) fn word<T>(text: &str) -> Result<T, StoreError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error| corrupt(&error))
}

/// JSON of a column.
pub(super) fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| corrupt(&error))
}

fn as_json<'a>(value: &impl serde::Serialize) -> Value<'a> {
    let text = serde_json::to_string(value).expect("a map or an envelope is plain JSON");
    Value::Text(Some(Cow::Owned(text)))
}

/// Answers of the host by key, as they are stored.
pub(super) fn answers(
    stored: impl IntoIterator<Item = (String, String)>,
) -> Result<Map, StoreError> {
    let mut answers = Map::new();
    for (key, answer) in stored {
        answers.insert(key, json::<Json>(&answer)?);
    }
    Ok(answers)
}

/// Whether the rows in a phase have an outcome: all of them, or none.
pub(super) fn has_outcome(phase: Phase) -> bool {
    phase.is_final() || phase == Phase::Accepted
}

/// The outcome that a write brings, which is written once.
pub(super) fn brought(write: &Write) -> Option<(&Outcome, Moment)> {
    if has_outcome(write.expect) {
        return None;
    }
    write.row.outcome.as_ref().zip(write.row.finished_at)
}

/// Whether a cancel of its run goes before what a write makes of a row.
pub(super) fn yields_to_a_cancel(row: &Linkage) -> bool {
    let outcome = row.outcome.as_ref();
    row.host == HostKind::Ledger && outcome.is_some_and(|it| it.phase != Phase::Cancelled)
}

/// What becomes of a submission of an action that is there.
pub(super) fn resubmitted(row: Option<Linkage>, is_same: bool, host: HostKind) -> Submitted {
    match row {
        Some(row) if is_same && row.host == host => Submitted::Known(Box::new(row)),
        _ => Submitted::Different,
    }
}

/// Why a run takes no submission, if it does not.
pub(super) fn refused_by_run(
    submission: &Submission,
    owner: &str,
    state: &str,
) -> Option<Submitted> {
    if owner != submission.owner.as_str() {
        Some(Submitted::RunOwned)
    } else if run_state(state) == RunState::Cancelled {
        Some(Submitted::RunCancelled)
    } else {
        None
    }
}

/// A write that fits no row which its claim could have led to.
pub(super) fn unexpected(found: Phase, write: &Write) -> StoreError {
    StoreError::Constraint {
        detail: format!("the row is {found} and not {}", write.expect),
    }
}

/// Says of a row that was claimed that nothing can be done with it.
pub(super) fn unreadable(action: &str, error: &StoreError) {
    tracing::error!(action_id = action, %error, "a row cannot be read, and is left for a lease");
}

fn corrupt(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt {
        detail: error.to_string(),
    }
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Milliseconds of a duration, at most as many as fit a column.
pub(super) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
