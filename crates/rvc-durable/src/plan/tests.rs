mod ending;
mod input;
mod lives;
mod poll;
mod start;

use std::time::Duration;

use rvc_wire::Map;
use serde_json::json;

use super::*;
use crate::envelope::ToolResultEnvelope;
use crate::error_code::ErrorCode;
use crate::linkage::{HostKind, Linkage, RemoteKind, RemoteTask};
use crate::moment::Moment;
use crate::outcome::Outcome;
use crate::phase::{ActionState, Phase};
use crate::policy::StartPolicy;
use crate::registration::{Access, Registration, TransportKind};
use crate::submission::{InputHandling, Submission};

const T0: Moment = Moment::from_unix_ms(1_700_000_000_000);

fn submission() -> Submission {
    Submission::new(
        "action".parse().expect("an id"),
        "robot".parse().expect("an id"),
        "navigate_to",
    )
}

fn registration() -> Registration {
    Registration {
        id: "robot".parse().expect("an id"),
        owner: crate::name::OwnerId::local(),
        endpoint: "http://robot/mcp".parse().expect("a URL"),
        transport: TransportKind::StreamableHttp,
        enabled: true,
    }
}

fn facts() -> Facts {
    Facts {
        run: RunState::Active,
        access: Access::Granted(registration()),
        answers: Map::new(),
    }
}

fn remote() -> RemoteTask {
    RemoteTask {
        kind: RemoteKind::Mcp,
        id: "t-1".into(),
        created_at: "2026-01-01T00:00:00Z".into(),
        status: "working".into(),
        ended: false,
        progress: None,
        ttl: Some(Duration::from_secs(60)),
        poll_interval: None,
    }
}

fn ended() -> RemoteTask {
    RemoteTask {
        status: "completed".into(),
        ended: true,
        ..remote()
    }
}

fn result(is_error: bool) -> ToolResultEnvelope {
    let result = json!({"content": [{"type": "text", "text": "there"}], "isError": is_error});
    ToolResultEnvelope::from_result(result.as_object().expect("an object")).expect("a result")
}

fn intent(submission: &Submission) -> Linkage {
    Linkage::intent(submission, HostKind::Ledger, T0)
}

fn working() -> Linkage {
    start(
        begun(intent(&submission()), T0),
        StartAnswer::Task(remote()),
    )
}

fn start(row: Linkage, answer: StartAnswer) -> Linkage {
    started(row, answer, &Settings::default(), T0, Jitter::NONE)
}

fn poll(row: Linkage, answer: PollAnswer) -> Linkage {
    polled(row, answer, &Settings::default(), T0, Jitter::NONE)
}

fn state(state: RemoteState) -> PollAnswer {
    let mut task = remote();
    task.ended = matches!(
        state,
        RemoteState::Completed(_) | RemoteState::Failed { .. } | RemoteState::Cancelled
    );
    PollAnswer::State { task, state }
}

fn code(row: &Linkage) -> Option<ErrorCode> {
    row.outcome
        .as_ref()
        .and_then(|outcome| outcome.error_code.clone())
}

fn no_answer() -> UpdateAnswer {
    UpdateAnswer::Unavailable {
        reason: "refused".into(),
        retry_after: None,
    }
}

fn asks() -> RemoteState {
    RemoteState::InputRequired(json!({"k": {}}).as_object().cloned().expect("an object"))
}

fn cancel(row: Linkage, answer: CancelAnswer, now: Moment) -> Linkage {
    cancel_answered(row, answer, &Settings::default(), now, Jitter::NONE)
}
