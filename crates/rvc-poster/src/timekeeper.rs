use std::sync::Arc;

use tokio::time::sleep_until;

use crate::engine::{Engine, PosterClosed};

/// The task that does what is due by time alone.
pub(crate) struct Timekeeper {
    engine: Arc<Engine>,
}

impl Timekeeper {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    pub(crate) async fn run(self) {
        loop {
            let timer = match self.engine.tick() {
                Ok(timer) => timer,
                Err(PosterClosed) => return,
            };
            let changed = self.engine.timer_changed().notified();
            if let Some(at) = timer {
                tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                }
            } else {
                changed.await;
            }
        }
    }
}

impl Drop for Timekeeper {
    fn drop(&mut self) {
        self.engine.timekeeper_lost();
    }
}
