#![allow(clippy::unwrap_used)]

use rvc_tasks::{CallScope, Caller, Map, NoSink, TaskManager, TaskSpec};

use super::*;

const LIMITS: HandleLimits = HandleLimits::new();
const MINUTE: Duration = Duration::from_secs(60);

/// A task that ends after a second.
async fn task() -> TaskHandle {
    let manager = TaskManager::new("navigation".parse().unwrap(), NoSink);
    let scope = CallScope::new(Caller::Listens);
    let start = async {
        manager.start(TaskSpec::new("work"), async |_| {
            sleep(Duration::from_secs(1)).await;
            Ok(Map::new())
        })
    };
    scope.run(start).await.unwrap();
    scope.started().remove(0)
}

#[tokio::test(start_paused = true)]
async fn handles_are_let_go_when_their_time_is_over_though_nobody_looks() {
    let handles = Arc::new(Handles::default());
    let ada = Principal::new("ada");
    for _ in 0..100 {
        let place = handles.reserve(Some(MINUTE), LIMITS).unwrap();
        place.take(&ada, &task().await, MINUTE);
    }
    assert_eq!(handles.len(), 100);
    sleep(MINUTE * 2).await;
    assert_eq!(handles.len(), 0);
    let table = handles.lock();
    assert_eq!((table.bytes, table.reserved), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_not_taken_is_given_back() {
    let handles = Arc::new(Handles::default());
    let limits = LIMITS.handles(1);
    let place = handles.reserve(Some(MINUTE), limits).unwrap();
    assert!(handles.reserve(Some(MINUTE), limits).is_none());
    drop(place);
    assert!(handles.reserve(Some(MINUTE), limits).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_handle_is_found_by_its_principal_only() {
    let handles = Arc::new(Handles::default());
    let place = handles.reserve(Some(MINUTE), LIMITS).unwrap();
    let id = place.take(&Principal::new("ada"), &task().await, MINUTE);
    assert!(handles.find(&Principal::new("ada"), &id).is_some());
    assert!(handles.find(&Principal::new("bob"), &id).is_none());
    assert!(handles.find(&Principal::default(), &id).is_none());
    assert!(handles.find(&Principal::new("ada"), "x").is_none());
}

#[tokio::test(start_paused = true)]
async fn scarcity_is_warned_of_once_until_it_is_over() {
    let logs = rvc_test::Logs::capture();
    let warnings = || {
        let lines = logs.lines();
        let warnings = lines
            .iter()
            .filter(|line| line.level == tracing::Level::WARN);
        warnings
            .filter(|line| line.message.contains("shorter lifetimes"))
            .count()
    };
    let handles = Arc::new(Handles::default());
    let limits = LIMITS.handles(6);
    let wish = Some(MINUTE * 60);
    for round in 1..=2 {
        let mut places: Vec<_> = (0..4).map(|_| handles.reserve(wish, limits)).collect();
        assert_eq!(warnings(), round - 1);
        places.extend((0..6).map(|_| handles.reserve(wish, limits)));
        assert_eq!(warnings(), round);
    }
}
