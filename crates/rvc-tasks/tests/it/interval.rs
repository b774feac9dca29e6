//! The smallest interval between progress events (contract decision 25).

use std::time::Duration;

use proptest::prelude::*;
use rvc_tasks::{CancelMode, EventType, Map, TaskEvent, TaskState, payload};
use tokio::time::{Instant, sleep};

use crate::support::{SECOND, end, navigation, settle, spec, told, trigger};

fn thinned() -> rvc_tasks::TaskSpec {
    spec().min_progress_interval(SECOND)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test(start_paused = true)]
async fn the_newest_report_wins_and_polls_see_every_one() {
    let (manager, sink) = navigation();
    let task = manager
        .start(thinned(), async |task| {
            for n in 0..100 {
                task.progress(payload! { "n": n })?;
                sleep(ms(33)).await;
            }
            std::future::pending().await
        })
        .unwrap()
        .task_id;
    sleep(ms(700)).await;
    assert_eq!(
        manager.get(&task).unwrap().progress,
        Some(payload! { "n": 21 })
    );
    assert_eq!(sink.events().len(), 1);

    sleep(10 * SECOND).await;

    let sent: Vec<_> = told(&sink.events())
        .into_iter()
        .map(|(_, payload)| payload)
        .collect();
    assert_eq!(
        sent,
        [
            r#"{"n":0}"#,
            r#"{"n":30}"#,
            r#"{"n":60}"#,
            r#"{"n":90}"#,
            r#"{"n":99}"#
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_report_held_back_goes_out_before_the_manager_closes() {
    let (manager, sink) = navigation();
    let task = manager.start(thinned(), async |task| {
        task.progress(payload! { "n": 0 })?;
        task.progress(payload! { "n": 1 })?;
        std::future::pending().await
    });
    task.unwrap();
    settle().await;
    assert_eq!(sink.events().len(), 1);

    manager.close().await;

    let sent: Vec<_> = told(&sink.events()).into_iter().map(|(_, it)| it).collect();
    assert_eq!(sent, [r#"{"n":0}"#, r#"{"n":1}"#]);
}

#[tokio::test(start_paused = true)]
async fn a_report_held_back_goes_out_by_itself_when_the_interval_is_over() {
    let (manager, sink) = navigation();
    manager
        .start(thinned(), async |task| {
            task.progress(payload! { "n": 1 })?;
            sleep(ms(100)).await;
            task.progress(payload! { "n": 2 })?;
            std::future::pending().await
        })
        .unwrap();
    sleep(ms(999)).await;
    assert_eq!(sink.events().len(), 1);
    sleep(ms(2)).await;
    assert_eq!(sink.events().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn triggers_see_every_report_and_fire_after_it() {
    let (manager, sink) = navigation();
    let half = trigger(r#"{"type":"progress_above","percent":50}"#);
    manager
        .start(thinned().triggers([half]), async |task| {
            for percent in [10, 20, 60, 30, 40] {
                task.progress(payload! { "percent": percent })?;
            }
            task.emit(payload! {})?;
            std::future::pending().await
        })
        .unwrap();
    settle().await;

    let events = told(&sink.events());
    let sent: Vec<_> = events.iter().map(|(_, payload)| payload.as_str()).collect();
    assert_eq!(
        sent,
        [
            r#"{"percent":10}"#,
            r#"{"percent":60}"#,
            r#"{"trigger":{"type":"progress_above","percent":50},"percent":60.0}"#,
            r#"{"percent":40}"#,
            "{}",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_report_held_back_goes_out_before_the_end() {
    let (manager, sink) = navigation();
    for (task, end_type) in [
        (
            manager.start(thinned(), async |task| {
                task.progress(payload! { "n": 1 })?;
                task.progress(payload! { "n": 2 })?;
                Ok(payload! {})
            }),
            EventType::TaskDone,
        ),
        (
            manager.start(thinned().deadline(ms(100)), async |task| {
                task.progress(payload! { "n": 1 })?;
                task.progress(payload! { "n": 2 })?;
                std::future::pending().await
            }),
            EventType::TaskFailed,
        ),
    ] {
        let task = task.unwrap().task_id;
        end(&manager, &task).await;
        let events = told(&sink.events_of(&task));
        assert_eq!(events[1], (EventType::Progress, r#"{"n":2}"#.into()));
        assert_eq!(events[2].0, end_type);
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_held_back_is_not_sent_after_a_cancel_but_polls_have_it() {
    let (manager, sink) = navigation();
    let cooperative = CancelMode::Cooperative { grace: None };
    let task = manager
        .start(thinned().cancel_mode(cooperative), async |task| {
            task.progress(payload! { "n": 1 })?;
            task.progress(payload! { "n": 2 })?;
            task.cancelled().await;
            sleep(3 * SECOND).await;
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    settle().await;

    let cancelled = manager.cancel(&task).await.unwrap();

    assert_eq!(cancelled.info.state, TaskState::Cancelled);
    assert_eq!(cancelled.info.progress, Some(payload! { "n": 2 }));
    sleep(10 * SECOND).await;
    assert_eq!(sink.events().len(), 1);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Report,
    Emit,
    Fire,
    Pause(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Report),
        1 => Just(Step::Emit),
        1 => Just(Step::Fire),
        2 => (1_u64..1_500).prop_map(Step::Pause),
    ]
}

/// What a body with these steps sends, with the time of each event.
fn run(steps: Vec<Step>) -> (Vec<TaskEvent>, Option<Map>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (manager, sink) = navigation();
        let repeating = trigger(r#"{"type":"t","repeat":true}"#);
        let spec = thinned().triggers([repeating]).evaluates(["t"]);
        let task = manager.start(spec, async move |task| {
            let start = Instant::now();
            for (n, step) in steps.into_iter().enumerate() {
                let at_ms = u64::try_from(start.elapsed().as_millis())?;
                let payload = payload! { "n": n, "at_ms": at_ms };
                match step {
                    Step::Report => task.progress(payload)?,
                    Step::Emit => task.emit(payload)?,
                    Step::Fire => drop(task.fire_trigger(&task.triggers()[0], payload)?),
                    Step::Pause(pause) => sleep(ms(pause)).await,
                }
            }
            Ok(payload! {})
        });
        let info = end(&manager, &task.unwrap().task_id).await;
        (sink.events(), info.progress)
    })
}

fn step_of(payload: &Map) -> usize {
    usize::try_from(payload["n"].as_u64().unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn thinning_loses_no_other_event_and_no_last_word(
        steps in prop::collection::vec(step(), 0..40)
    ) {
        let (events, progress) = run(steps.clone());
        told(&events);

        let number = |event: &TaskEvent| step_of(&event.payload);
        let is_report = |event: &&TaskEvent| event.event_type == EventType::Progress;
        let last_report_before = |n: usize| {
            (0..n).rev().find(|&n| matches!(steps[n], Step::Report))
        };
        let (end, events) = events.split_last().unwrap();
        prop_assert_eq!(&end.event_type, &EventType::TaskDone);
        // Every event that is no report is there.
        let others: Vec<_> = events.iter().filter(|e| !is_report(e)).map(number).collect();
        let expected: Vec<_> = (0..steps.len())
            .filter(|&n| matches!(steps[n], Step::Emit | Step::Fire))
            .collect();
        prop_assert_eq!(others, expected);
        // Before each of them, and before the end, the newest report has gone out.
        let mut sent = None;
        for event in events {
            if is_report(&event) {
                sent = Some(number(event));
            } else {
                prop_assert_eq!(sent, last_report_before(number(event)));
            }
        }
        prop_assert_eq!(sent, last_report_before(steps.len()));
        prop_assert_eq!(progress.as_ref().map(step_of), sent);
    }
}
