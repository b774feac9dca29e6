use rvc_tasks::{
    AttachedTrigger, BadTrigger, EmitError, EventType, Firing, MemorySink, StartError, TaskError,
    TaskManager, TaskSpec, payload,
};
use rvc_test::Logs;
use tokio::time::sleep;
use tracing::Level;

use crate::support::{SECOND, end, navigation, settle, spec, told, trigger, types};

fn eta_below(secs: u32) -> rvc_tasks::Trigger {
    trigger(&format!(r#"{{"type":"eta_below","seconds":{secs}}}"#))
}

#[tokio::test(start_paused = true)]
async fn an_eta_trigger_fires_exactly_once_with_the_trigger_as_it_came() {
    let (manager, sink) = navigation();
    let as_it_came = r#"{"seconds":2.50,"note":{"b":1,"a":[1e3]},"type":"eta_below"}"#;
    let spec = spec()
        .triggers([trigger(as_it_came)])
        .evaluates_with("eta_below", |trigger| trigger.number("seconds").map(drop));
    let task = manager
        .start(spec, async |task| {
            for eta in [4.0, 3.0, 2.0, 1.0] {
                for eta_below in task.triggers() {
                    if eta < eta_below.number("seconds")? {
                        task.fire_trigger(eta_below, payload! { "eta_s": eta, "trigger": "no" })?;
                    }
                }
                sleep(SECOND).await;
            }
            Ok(payload! {})
        })
        .unwrap()
        .task_id;

    let info = end(&manager, &task).await;

    // A number's spelling is not kept, its value is.
    let fired =
        r#"{"trigger":{"seconds":2.5,"note":{"b":1,"a":[1000.0]},"type":"eta_below"},"eta_s":2.0}"#;
    assert_eq!(
        told(&sink.events())[0],
        (EventType::TriggerFired, fired.into())
    );
    assert_eq!(
        types(&sink.events()),
        [EventType::TriggerFired, EventType::TaskDone]
    );
    assert_eq!(info.triggers, [trigger(as_it_came)]);
}

#[tokio::test(start_paused = true)]
async fn a_repeating_trigger_fires_every_time_and_equal_ones_count_apart() {
    let (manager, sink) = navigation();
    let repeating = trigger(r#"{"type":"zone_entered","zone":"lab","repeat":true}"#);
    let spec = spec()
        .triggers([eta_below(9), eta_below(9), repeating])
        .evaluates(["eta_below", "zone_entered"]);
    let task = manager
        .start(spec, async |task| {
            let [first, second, lab] = task.triggers() else {
                panic!("three are attached")
            };
            for (trigger, firing) in [
                (first, Firing::Fired),
                (first, Firing::AlreadyFired),
                (second, Firing::Fired),
                (second, Firing::AlreadyFired),
                (lab, Firing::Fired),
                (lab, Firing::Fired),
            ] {
                assert_eq!(task.fire_trigger(trigger, payload! {})?, firing);
            }
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    end(&manager, &task).await;
    assert_eq!(sink.events().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn progress_above_fires_at_its_percent_once_or_at_every_report() {
    let (manager, sink) = navigation();
    let once = r#"{"type":"progress_above","percent":50}"#;
    let always = r#"{"type":"progress_above","percent":80.5,"repeat":true}"#;
    let task = manager
        .start(
            spec().triggers([trigger(once), trigger(always)]),
            async |task| {
                task.progress(payload! { "percent": 49.9 })?;
                task.progress(payload! { "percent": 50 })?;
                task.progress(payload! { "percent": 80.5 })?;
                task.progress(payload! { "percent": "99" })?;
                task.progress(payload! { "percent": f64::NAN })?;
                task.progress(payload! { "eta_s": 1 })?;
                task.progress(payload! { "percent": 20 })?;
                task.progress(payload! { "percent": 100 })?;
                Ok(payload! {})
            },
        )
        .unwrap()
        .task_id;

    end(&manager, &task).await;

    let fired: Vec<_> = told(&sink.events())
        .into_iter()
        .enumerate()
        .filter(|(_, (event_type, _))| *event_type == EventType::TriggerFired)
        .map(|(index, (_, payload))| (index, payload))
        .collect();
    assert_eq!(
        fired,
        [
            (2, format!(r#"{{"trigger":{once},"percent":50.0}}"#)),
            (4, format!(r#"{{"trigger":{always},"percent":80.5}}"#)),
            (10, format!(r#"{{"trigger":{always},"percent":100.0}}"#)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_trigger_types_are_ignored_with_one_warning_that_names_them() {
    let logs = Logs::capture();
    let (manager, sink) = navigation();
    let unknown = |kind| trigger(&format!(r#"{{"type":"{kind}","percent":1}}"#));
    let task = manager
        .start(
            spec()
                .triggers([
                    unknown("person_seen"),
                    eta_below(1),
                    unknown("battery_below"),
                    unknown("person_seen"),
                    unknown("progress_above"),
                ])
                .evaluates(["eta_below"]),
            async |task| {
                task.progress(payload! { "percent": 100 })?;
                Ok(payload! {})
            },
        )
        .unwrap()
        .task_id;

    let info = end(&manager, &task).await;

    assert_eq!(info.triggers.len(), 5, "they are shown as they came");
    assert_eq!(
        types(&sink.events()),
        [
            EventType::Progress,
            EventType::TriggerFired,
            EventType::TaskDone
        ]
    );
    let [warning] = &logs.at(Level::WARN)[..] else {
        panic!("one warning: {:?}", logs.at(Level::WARN))
    };
    assert_eq!(warning.field("types"), Some("battery_below, person_seen"));
    assert_eq!(warning.field("task_id"), Some(task.as_str()));
}

#[tokio::test(start_paused = true)]
async fn a_known_trigger_with_wrong_fields_starts_nothing() {
    let (manager, sink) = navigation();
    let positive = |trigger: &AttachedTrigger| match trigger.number("seconds")? {
        seconds if seconds > 0.0 => Ok(()),
        _ => Err(BadTrigger::new("eta_below", "`seconds` must be above 0")),
    };
    for (text, message) in [
        (
            r#"{"type":"eta_below","seconds":0}"#,
            "`seconds` must be above 0",
        ),
        (r#"{"type":"eta_below"}"#, "`seconds` must be a number"),
        (r#"{"type":"progress_above"}"#, "`percent` must be a number"),
    ] {
        let spec = spec()
            .triggers([trigger(text)])
            .evaluates_with("eta_below", positive);
        let error = manager
            .start(spec, async |_| unreachable!("it is not started"))
            .unwrap_err();
        assert!(error.is_callers_fault());
        assert!(error.to_string().ends_with(message), "{error}");
    }
    settle().await;
    assert_eq!(manager.list(&[]), []);
    assert_eq!(sink.events(), []);
}

#[tokio::test(start_paused = true)]
async fn a_trigger_that_would_not_fit_in_an_event_starts_nothing() {
    let manager = TaskManager::builder("nav".parse().unwrap(), MemorySink::new())
        .max_event_bytes(8_192)
        .build()
        .unwrap();
    let text = r#"{"type":"progress_above","percent":5,"x":"X"}"#;
    let large = trigger(&text.replace('X', &"x".repeat(5_000)));
    let error = manager
        .start(spec().triggers([large]), async |_| Ok(payload! {}))
        .unwrap_err();
    assert!(
        matches!(error, StartError::TriggersTooLarge { most: 4_096, .. }),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn triggers_that_would_fill_the_memory_start_nothing() {
    let (manager, _) = navigation();
    let large = trigger(&format!(r#"{{"type":"t","x":"{}"}}"#, "x".repeat(1 << 16)));
    let error = manager
        .start(spec().triggers([large]), async |_| Ok(payload! {}))
        .unwrap_err();
    assert!(
        matches!(error, StartError::TriggersTooLarge { .. }),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_trigger_of_another_task_is_refused() {
    let (manager, sink) = navigation();
    let (lend, lending) = tokio::sync::oneshot::channel();
    manager
        .start(spec().triggers([eta_below(1)]), async |task| {
            lend.send(task.triggers()[0].clone()).unwrap();
            Ok(payload! {})
        })
        .unwrap();
    let foreign = lending.await.unwrap();
    let task = manager
        .start(
            spec().triggers([eta_below(2)]),
            async move |task| match task.fire_trigger(&foreign, payload! {}) {
                Err(EmitError::ForeignTrigger) => Ok(payload! {}),
                other => Err(TaskError::new("WRONG", format!("{other:?}"))),
            },
        )
        .unwrap()
        .task_id;
    assert_eq!(end(&manager, &task).await.failure, None);
    assert_eq!(types(&sink.events_of(&task)), [EventType::TaskDone]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_without_a_name_starts_nothing() {
    let (manager, _) = navigation();
    let error = manager
        .start(TaskSpec::new(""), async |_| Ok(payload! {}))
        .unwrap_err();
    assert!(matches!(error, StartError::ToolName(_)));
}
