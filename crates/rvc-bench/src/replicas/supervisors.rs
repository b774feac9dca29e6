use std::time::{Duration, Instant};

use rvc_durable::{Durable, SupervisorOptions};

use super::database::Database;
use crate::durable::Server;

/// More than are polled in one run: none is due again in it.
pub(super) const ROWS: u32 = 20_000;

pub(super) const REGISTRATIONS: u32 = 16;

/// Polls that one supervisor has under way at once, which is what binds one alone.
pub(super) const CONCURRENCY: u32 = 8;

/// What a poll takes.
pub(super) const THINKING: Duration = Duration::from_millis(100);

/// Steps of `count` supervisors.
pub(super) fn steps_per_second(database: &Database, count: u32) -> anyhow::Result<f64> {
    const MEASURED: Duration = Duration::from_secs(4);
    database.block_on(async {
        let beside = database.connect().await?;
        beside.batch_execute(ALL_DUE).await?;
        database.settle(&beside).await?;
        let server = Server::thinking(THINKING);
        let concurrency = CONCURRENCY as usize;
        let mut supervisors = Vec::new();
        for _ in 0..count {
            let options = SupervisorOptions::new().concurrency(concurrency, concurrency);
            let store = database.store(4).await?;
            let supervisor = Durable::new(store, server.clone(), options);
            supervisor.supervise();
            supervisors.push(supervisor);
        }
        // Every supervisor has connected to every server.
        tokio::time::sleep(Duration::from_secs(1)).await;

        let before = server.polls();
        let start = Instant::now();
        tokio::time::sleep(MEASURED).await;
        let polls = server.polls() - before;
        let rate = f64::from(polls) / start.elapsed().as_secs_f64();
        for supervisor in supervisors {
            supervisor.close().await;
        }
        Ok(rate)
    })
}

const ALL_DUE: &str = "UPDATE mcp_action_tasks SET next_due = store_now(NULL), \
    lease_owner = NULL, lease_until = NULL";
