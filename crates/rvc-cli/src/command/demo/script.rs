//! What the client does: three tasks, one poll, one cancel.

use std::time::Duration;

use anyhow::{Context, ensure};
use rvc_wire::{Map, TaskId, TaskInfo, TaskState};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::command::demo::client::Client;
use crate::command::demo::judge::Expected;
use crate::command::demo::receiver::Received;
use crate::command::demo::timeline::Timeline;

/// The answer of `cancel_task`, as far as it is looked at.
#[derive(Deserialize)]
struct CancelAnswer {
    state: TaskState,
    stopped: bool,
}

/// The answer of `list_tasks`.
#[derive(Deserialize)]
struct ListAnswer {
    tasks: Vec<TaskInfo>,
}

/// Plays the script, and answers what each task must come to.
pub(crate) async fn play(
    client: &Client,
    received: &Received,
    timeline: &Timeline,
) -> anyhow::Result<Vec<Expected>> {
    let start = Instant::now();
    let long = begin(
        client,
        timeline,
        json!({"duration_s": 3.2, "triggers": [
            {"type": "progress_above", "percent": 50},
            {"type": "eta_below", "seconds": 1},
        ]}),
    )
    .await?;
    let failing = begin(client, timeline, json!({"duration_s": 1.6, "fail": true})).await?;
    let endless = begin(client, timeline, json!({"duration_s": 86400})).await?;

    sleep_until(start + POLL_AT).await;
    let info: TaskInfo = client.call("get_task", json!({"task_id": long})).await?;
    let progress = json!({"state": info.state, "progress": info.progress});
    timeline.step("get_task", Some(&long), &progress)?;
    ensure!(
        info.state == TaskState::Running,
        "{long} is {} after {POLL_AT:?}",
        info.state
    );

    sleep_until(start + CANCEL_AT).await;
    let answer: Value = client
        .call("cancel_task", json!({"task_id": endless}))
        .await?;
    timeline.step("cancel_task", Some(&endless), &answer)?;
    let answer: CancelAnswer =
        serde_json::from_value(answer).context("cancel_task answers otherwise")?;
    ensure!(
        answer.state == TaskState::Cancelled && answer.stopped,
        "{endless} was not cancelled"
    );

    received.end_of(&failing).await;
    received.end_of(&long).await;
    Ok(vec![
        Expected {
            task: long,
            state: TaskState::Succeeded,
            triggers: vec!["progress_above", "eta_below"],
        },
        Expected {
            task: failing,
            state: TaskState::Failed,
            triggers: vec![],
        },
        Expected {
            task: endless,
            state: TaskState::Cancelled,
            triggers: vec![],
        },
    ])
}

/// Asks for the state of all tasks, as a brain does after a restart.
pub(crate) async fn reconcile(
    client: &Client,
    timeline: &Timeline,
) -> anyhow::Result<Vec<(TaskId, TaskState)>> {
    let ListAnswer { tasks } = client.call("list_tasks", json!({})).await?;
    let states: Vec<_> = tasks
        .into_iter()
        .map(|info| (info.task_id, info.state))
        .collect();
    let told: Map = states
        .iter()
        .map(|(task, state)| (task.to_string(), json!(state)))
        .collect();
    timeline.step("list_tasks", None, &Value::Object(told))?;
    Ok(states)
}

async fn begin(client: &Client, timeline: &Timeline, arguments: Value) -> anyhow::Result<TaskId> {
    let asked = Instant::now();
    let info: TaskInfo = client.call("sleep_task", arguments.clone()).await?;
    let told = json!({
        "arguments": arguments,
        "state": info.state,
        "answered_in_ms": u64::try_from(asked.elapsed().as_millis())?,
    });
    timeline.step("sleep_task", Some(&info.task_id), &told)?;
    Ok(info.task_id)
}

const POLL_AT: Duration = Duration::from_secs(1);
const CANCEL_AT: Duration = Duration::from_millis(1_400);
