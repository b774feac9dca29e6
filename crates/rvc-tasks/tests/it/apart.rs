//! Bodies that block their threads, as many as there are threads, and all who must not wait for
//! them. A blocked thread cannot be had on a paused clock, so graces are short and real; nothing
//! depends on how long anything takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::available_parallelism;
use std::time::Duration;

use rvc_tasks::{
    CancelMode, EventPoster, MemorySink, PosterConfig, TaskId, TaskManager, TaskState, payload,
};
use rvc_test::ScriptedEndpoint;
use tokio::time::timeout;

use crate::support::{COOPERATIVE, spec};

const SHORT: Duration = Duration::from_millis(20);

/// Longer than anything here takes.
const AT_MOST: Duration = Duration::from_secs(60);

/// Blocks every thread that bodies have, until it is dropped.
struct Blocked {
    tasks: Vec<TaskId>,
    _releases: Vec<mpsc::Sender<()>>,
}

impl Blocked {
    /// More bodies than there are threads: the last ones never begin.
    async fn on(manager: &TaskManager, mode: CancelMode) -> Self {
        let threads = available_parallelism().unwrap().get().max(2);
        let (began, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
        let (tasks, releases) = (0..threads + 3)
            .map(|_| {
                let (release, blocked) = mpsc::channel::<()>();
                let began = began.clone();
                let task = manager.start(spec().cancel_mode(mode), async move |_| {
                    began.send(()).unwrap();
                    // Never do this in a body.
                    let _ = blocked.recv();
                    Ok(payload! {})
                });
                (task.unwrap().task_id, release)
            })
            .unzip();
        for _ in 0..threads {
            has_begun.recv().await.unwrap();
        }
        Self {
            tasks,
            _releases: releases,
        }
    }
}

/// Says when it is dropped.
struct Motor(Arc<AtomicBool>);

impl Drop for Motor {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn navigation() -> (TaskManager, MemorySink) {
    let sink = MemorySink::new();
    let manager = TaskManager::builder("navigation".parse().unwrap(), sink.clone())
        .cancel_grace(SHORT)
        .build()
        .unwrap();
    manager.run_bodies_apart().unwrap();
    (manager, sink)
}

async fn blocked_bodies_leave_the_manager_at_work(mode: CancelMode) {
    let (manager, sink) = navigation();
    let blocked = Blocked::on(&manager, mode).await;
    let task = &blocked.tasks[0];

    assert_eq!(manager.get(task).unwrap().state, TaskState::Running);
    let cancelled = timeout(AT_MOST, manager.cancel(task)).await.unwrap();
    let cancelled = cancelled.unwrap();
    assert!(!cancelled.stopped, "{mode:?}");
    assert_eq!(cancelled.info.state, TaskState::Cancelled);

    // Nobody can let go of a body that has no thread to be dropped on, and nobody says so.
    let unbegun = blocked.tasks.last().unwrap();
    let cancelled = timeout(AT_MOST, manager.cancel(unbegun)).await.unwrap();
    assert!(!cancelled.unwrap().stopped, "{mode:?}");

    timeout(AT_MOST, manager.close()).await.unwrap();
    assert!(sink.is_closed());
    assert_eq!(manager.list(&[TaskState::Running]), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn as_many_blocked_bodies_as_threads_keep_no_cancel_no_poll_and_no_close_from_its_answer() {
    for mode in [CancelMode::Droppable, COOPERATIVE] {
        blocked_bodies_leave_the_manager_at_work(mode).await;
    }
}

#[tokio::test]
async fn blocked_bodies_keep_nobody_waiting_in_a_program_of_one_thread() {
    blocked_bodies_leave_the_manager_at_work(CancelMode::Droppable).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn events_leave_while_every_thread_of_bodies_is_blocked() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let url = format!("http://{}/", endpoint.listen().await.unwrap());
    let config = PosterConfig::from_vars(|name| match name {
        "RVC_CALLBACK_URL" => Some(url.clone().into()),
        "RVC_EVENT_SECRET" => Some("not-for-production".into()),
        _ => None,
    });
    // Without a runtime here: it takes the one that the first event finds.
    let config = config.unwrap();
    let poster = std::thread::spawn(move || {
        EventPoster::from_config("navigation".parse().unwrap(), &config).unwrap()
    });
    let poster = poster.join().unwrap();
    let manager = TaskManager::builder("navigation".parse().unwrap(), poster)
        .cancel_grace(SHORT)
        .build()
        .unwrap();
    manager.run_bodies_apart().unwrap();
    let (context, reporter) = tokio::sync::oneshot::channel();
    let reporting = manager.start(spec().deadline(AT_MOST), async move |task| {
        task.progress(payload! { "n": 1 })?;
        context.send(task).unwrap();
        std::future::pending().await
    });
    let reporter = reporter.await.unwrap();

    let blocked = Blocked::on(&manager, CancelMode::Droppable).await;
    reporter.progress(payload! { "n": 2 }).unwrap();

    while endpoint.received().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(reporting.unwrap().task_id, *reporter.task_id());
    drop(blocked);
    manager.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_body_that_blocks_its_thread_past_its_deadline_fails_with_timeout() {
    let (manager, _) = navigation();
    let (_release, never) = mpsc::channel::<()>();
    let task = manager.start(spec().deadline(SHORT), async move |_| {
        // Never do this in a body.
        let _ = never.recv();
        Ok(payload! {})
    });

    let ended = manager.wait(&task.unwrap().task_id, AT_MOST).await.unwrap();

    assert_eq!(ended.failure.unwrap().error_code, "TIMEOUT");
}

#[tokio::test]
async fn what_bodies_have_spawned_is_dropped_when_the_manager_closes() {
    let (manager, _) = navigation();
    let stopped = Arc::new(AtomicBool::new(false));
    let motor = Motor(Arc::clone(&stopped));
    let task = manager.start(spec(), async move |_| {
        tokio::spawn(async move {
            let _motor = motor;
            std::future::pending::<()>().await;
        });
        Ok(payload! {})
    });
    manager.wait(&task.unwrap().task_id, AT_MOST).await.unwrap();
    assert!(!stopped.load(Ordering::SeqCst));

    manager.close().await;

    // A starved machine may take longer than the close waits.
    while !stopped.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
}

#[test]
fn the_end_of_the_server_s_runtime_drops_bodies_and_later_tasks_run_where_they_start() {
    let manager = TaskManager::new("navigation".parse().unwrap(), MemorySink::new());
    let stopped = Arc::new(AtomicBool::new(false));
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let home = runtime();
    let motor = Motor(Arc::clone(&stopped));
    home.block_on(async {
        manager.run_bodies_apart().unwrap();
        let (running, runs) = tokio::sync::oneshot::channel();
        let started = manager.start(spec(), async move |_| {
            let _motor = motor;
            running.send(()).unwrap();
            std::future::pending().await
        });
        started.unwrap();
        runs.await.unwrap();
    });

    drop(home);
    assert!(stopped.load(Ordering::SeqCst));

    let next = runtime();
    let cancelled = next.block_on(async {
        let task = manager.start(spec(), async |_| std::future::pending().await);
        manager.cancel(&task.unwrap().task_id).await.unwrap()
    });
    assert_eq!(cancelled.info.state, TaskState::Cancelled);
}

#[test]
fn without_a_runtime_there_is_nothing_to_run_apart_from() {
    let manager = TaskManager::new("navigation".parse().unwrap(), MemorySink::new());
    assert!(manager.run_bodies_apart().is_err());
}
