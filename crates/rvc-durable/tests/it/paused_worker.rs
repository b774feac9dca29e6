//! A whole process that stops past its lease and goes on: `SIGSTOP` and `SIGCONT`, in one test.
//! On real time: a paused thread cannot see a paused clock.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rvc_durable::store::Store;
use rvc_durable::{ActionId, Checkpoint, Durable, DurableStep, Phase, SupervisorOptions};

use crate::engine::{TestStore, wall_clock};
use crate::peer::{Peer, Reply};
use crate::world::{id, registration, submission};

/// Blocks its thread at one step, once: says so, and waits to be let go.
struct StopAt {
    step: DurableStep,
    stopped: Mutex<Option<mpsc::Sender<()>>>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Checkpoint for StopAt {
    fn reached(&self, step: DurableStep, _: &ActionId) {
        if step == self.step
            && let Some(stopped) = self.stopped.lock().unwrap().take()
        {
            stopped.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
    }
}

fn options() -> SupervisorOptions {
    SupervisorOptions::new()
        .lease(Duration::from_millis(300))
        .tick(Duration::from_millis(20))
}

#[test]
fn a_worker_paused_past_its_lease_changes_nothing() {
    for (step, phase, starts, cancels) in [
        (DurableStep::Claimed, Phase::Completed, 1, 0),
        (DurableStep::Connected, Phase::Completed, 1, 0),
        // It had the right to send, but its start is taken for sent: it stays unsent.
        (DurableStep::SendingCommitted, Phase::Unknown, 0, 0),
        // Its handle comes too late.
        (DurableStep::StartAnswered, Phase::Unknown, 1, 1),
        (DurableStep::PollAnswered, Phase::Completed, 1, 0),
    ] {
        let store = TestStore::new(wall_clock);
        let peer = Peer::new(|call| match call.method.as_str() {
            "tools/call" => Reply::handle("t-1"),
            "tasks/get" => Reply::completed("t-1", "there"),
            _ => Reply::acknowledged(),
        });
        let (stopped, is_stopped) = mpsc::channel();
        let (let_go, go_on) = mpsc::channel();
        let stop = Arc::new(StopAt {
            step,
            stopped: Mutex::new(Some(stopped)),
            go_on: Mutex::new(go_on),
        });
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let process = {
            let (store, peer) = (store.clone(), peer.clone());
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(async {
                    store.put_registration(registration()).await.unwrap();
                    let durable = Durable::new(store, peer, options().checkpoint(stop));
                    durable.submit(submission("a")).await.unwrap();
                    durable.supervise();
                    let _ = ended.await;
                    durable.close().await;
                });
            })
        };
        is_stopped.recv().unwrap();

        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let second = Durable::new(store.clone(), peer.clone(), options());
            second.supervise();
            let outcome = second.outcome(&id("a")).await.unwrap();
            assert_eq!(outcome.phase, phase, "{step}");
            let before = store.row(id("a")).await.unwrap();

            let_go.send(()).unwrap();
            end.send(()).unwrap();
            tokio::task::spawn_blocking(move || process.join().unwrap())
                .await
                .unwrap();

            assert_eq!(store.row(id("a")).await.unwrap(), before, "{step}");
            second.close().await;
        });
        assert_eq!(peer.count("tools/call"), starts, "{step}");
        assert_eq!(peer.count("tasks/cancel"), cancels, "{step}");
    }
}
