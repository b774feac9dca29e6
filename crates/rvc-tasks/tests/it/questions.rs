//! What a body asks the user, and what becomes of it.

use std::time::Duration;

use rvc_tasks::{
    Answered, CallScope, Caller, CancelMode, Map, NoSink, OpenQuestion, Question, TaskContext,
    TaskError, TaskHandle, TaskManager, TaskSpec, TaskState, Value, payload,
};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::support::{COOPERATIVE, SECOND, settle, spec};

fn manager() -> TaskManager {
    TaskManager::new("navigation".parse().unwrap(), NoSink)
}

/// Starts a body as a caller does that can answer.
async fn start<B, F>(spec: TaskSpec, body: B) -> TaskHandle
where
    B: FnOnce(TaskContext) -> F + Send + 'static,
    F: Future<Output = Result<Map, TaskError>> + Send + 'static,
{
    let (manager, scope) = (manager(), CallScope::new(Caller::Answers));
    scope
        .run(async { manager.start(spec, body) })
        .await
        .unwrap();
    settle().await;
    scope.started().remove(0)
}

fn door() -> Question<String> {
    Question::new(payload! { "ask": "The door is closed." })
}

fn keys(task: &TaskHandle) -> Vec<String> {
    task.questions()
        .into_iter()
        .map(|question| question.key)
        .collect()
}

async fn ended(task: &TaskHandle) -> rvc_tasks::TaskInfo {
    task.ended().await;
    task.info()
}

#[tokio::test(start_paused = true)]
async fn a_body_waits_for_its_answer() {
    let task = start(spec(), async |task| {
        let way = task.ask("door", door()).await?;
        Ok(payload! { "way": way })
    })
    .await;
    let OpenQuestion { key, request, .. } = task.questions().remove(0);
    assert_eq!(key, "door");
    assert_eq!(request, payload! { "ask": "The door is closed." });
    let asked_at = task.info().updated_at;

    sleep(1_000 * SECOND).await;
    assert_eq!(task.info().state, TaskState::Running);
    assert_eq!(task.answer("door", json!("wait")), Ok(Answered::Taken));

    assert!(task.questions().is_empty());
    assert_eq!(ended(&task).await.result, Some(payload! { "way": "wait" }));
    assert!(task.info().updated_at >= asked_at);
}

#[tokio::test(start_paused = true)]
async fn several_questions_wait_at_once_and_are_answered_one_by_one() {
    let task = start(spec(), async |task| {
        let (b, a) = tokio::try_join!(task.ask("b", door()), task.ask("a", door()))?;
        Ok(payload! { "a": a, "b": b })
    })
    .await;
    assert_eq!(keys(&task), ["b", "a"]);

    assert_eq!(task.answer("a", json!("1")), Ok(Answered::Taken));
    settle().await;
    assert_eq!(keys(&task), ["b"]);
    assert_eq!(task.answer("a", json!("2")), Ok(Answered::NotAsked));
    assert_eq!(task.answer("b", json!("3")), Ok(Answered::Taken));

    let result = ended(&task).await.result;
    assert_eq!(result, Some(payload! { "a": "1", "b": "3" }));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_wrong_shape_is_refused_and_the_question_stays_open() {
    let task = start(spec(), async |task| {
        let question = Question::with_check(Map::new(), |answer: &u8| {
            (*answer < 3)
                .then_some(())
                .ok_or_else(|| "too many".to_owned())
        });
        let answer = task.ask("how_often", question).await?;
        Ok(payload! { "answer": answer })
    })
    .await;

    for (wrong, says) in [(json!("2"), "invalid type"), (json!(3), "too many")] {
        let error = task.answer("how_often", wrong.clone()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(task.check_answer("how_often", &wrong).is_err());
        assert_eq!(keys(&task), ["how_often"]);
    }
    assert_eq!(task.answer("how_often", json!(2)), Ok(Answered::Taken));
    assert_eq!(ended(&task).await.result, Some(payload! { "answer": 2 }));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_used_once_in_a_lifetime() {
    let task = start(spec(), async |task| {
        task.ask("door", door()).await?;
        let error = task.ask("door", door()).await.unwrap_err();
        assert_eq!(error.failure().error_code, "INTERNAL");
        // A question that was withdrawn has used its key too.
        let withdrawn = timeout(SECOND, task.ask("lift", door())).await;
        assert!(withdrawn.is_err());
        assert!(task.ask("lift", door()).await.is_err());
        Ok(Map::new())
    })
    .await;
    task.answer("door", json!("wait")).unwrap();
    assert_eq!(ended(&task).await.state, TaskState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_waits_for_is_withdrawn() {
    let task = start(spec(), async |task| {
        let waited = timeout(SECOND, task.ask("door", door())).await;
        assert!(waited.is_err());
        sleep(SECOND).await;
        Ok(Map::new())
    })
    .await;
    assert_eq!(keys(&task), ["door"]);
    sleep(SECOND + Duration::from_millis(1)).await;
    assert!(keys(&task).is_empty());
    assert_eq!(task.answer("door", json!("wait")), Ok(Answered::NotAsked));
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_a_body_that_is_busy() {
    let task = start(spec(), async |task| {
        let mut ask = std::pin::pin!(task.ask("door", door()));
        assert!(timeout(Duration::ZERO, &mut ask).await.is_err());
        // The answer comes while nobody polls.
        sleep(10 * SECOND).await;
        let way = ask.await?;
        Ok(payload! { "way": way })
    })
    .await;
    sleep(SECOND).await;
    assert_eq!(task.answer("door", json!("detour")), Ok(Answered::Taken));
    let result = ended(&task).await.result;
    assert_eq!(result, Some(payload! { "way": "detour" }));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_wakes_a_body_that_asks() {
    let task = start(spec().cancel_mode(COOPERATIVE), async |task| {
        let error = task.ask("door", door()).await.unwrap_err();
        assert!(task.is_cancelled());
        Err(error)
    })
    .await;

    task.request_cancel();

    assert!(task.questions().is_empty());
    assert_eq!(task.answer("door", json!("wait")), Ok(Answered::NotAsked));
    assert_eq!(ended(&task).await.state, TaskState::Cancelled);
    assert!(task.has_stopped());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_asks_after_a_cancel_is_not_kept() {
    let task = start(spec().cancel_mode(COOPERATIVE), async |task| {
        task.cancelled().await;
        assert!(task.ask("door", door()).await.is_err());
        Ok(Map::new())
    })
    .await;
    task.request_cancel();
    assert_eq!(ended(&task).await.state, TaskState::Cancelled);
    assert!(task.has_stopped());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_wakes_a_body_that_asks() {
    let spec = spec()
        .cancel_mode(CancelMode::Cooperative { grace: None })
        .deadline(SECOND);
    let task = start(spec, async |task| {
        task.ask("door", door()).await?;
        Ok(Map::new())
    })
    .await;
    let failure = ended(&task).await.failure.unwrap();
    assert_eq!(failure.error_code, "TIMEOUT");
}

#[tokio::test(start_paused = true)]
async fn a_caller_on_the_contract_alone_is_not_asked() {
    let manager = manager();
    let info = manager
        .start(spec(), async |task| {
            let by_default = task.ask("door", door().or("wait".to_owned())).await?;
            assert_eq!(by_default, "wait");
            task.ask("lift", door()).await?;
            Ok(Map::new())
        })
        .unwrap();
    let ended = manager.wait(&info.task_id, SECOND).await.unwrap();
    assert_eq!(ended.failure.unwrap().error_code, "INPUT_UNSUPPORTED");
}

#[tokio::test(start_paused = true)]
async fn a_body_is_told_when_it_turns_out_that_nobody_can_answer() {
    let task = start(spec(), async |task| {
        let way = task.ask("door", door().or("wait".to_owned())).await?;
        task.ask::<Value>("lift", Question::new(Map::new())).await?;
        Ok(payload! { "way": way })
    })
    .await;
    assert!(task.is_answerable());
    task.set_answerable(false);
    let failure = ended(&task).await.failure.unwrap();
    assert_eq!(failure.error_code, "INPUT_UNSUPPORTED");
}
