use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rvc_durable::plan::{self, Facts, Jitter, PollAnswer, RemoteState, Settings, Step};
use rvc_durable::store::{ClaimRequest, Claimed, LeaseOwner, SqliteStore, Store, Write, Written};
use rvc_durable::{Access, Moment};
use tokio::task::JoinSet;

use super::fixture::Fixture;

/// Rows that are polled once each.
pub(super) const STEPS: u32 = 20_000;

/// As many as it takes for 64 in hand at 8 of each.
pub(super) const REGISTRATIONS: u32 = 8;

/// What the store takes when it is driven as the supervisor drives it.
pub(super) fn row_writes_per_second() -> anyhow::Result<f64> {
    let fixture = Fixture::new(STEPS, REGISTRATIONS, Duration::ZERO)?;
    let store = SqliteStore::open(fixture.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let start = Instant::now();
    runtime.block_on(drain(Arc::new(store)))?;
    Ok(2.0 * f64::from(STEPS) / start.elapsed().as_secs_f64())
}

/// The supervisor's loop, with a poll that is answered at once.
async fn drain(store: Arc<dyn Store>) -> anyhow::Result<()> {
    let settings = Arc::new(Settings::default());
    let owner = LeaseOwner::draw();
    let mut steps = JoinSet::new();
    let mut in_hand = HashMap::new();
    let mut done = 0;
    while done < STEPS {
        let room = 64 - steps.len();
        if room > 0 {
            let limit = u32::try_from(room.min(32))?;
            let mut request = ClaimRequest::new(owner, limit, Duration::from_secs(30));
            request.per_registration = 8;
            for registration in in_hand.values() {
                *request
                    .in_hand
                    .entry(Clone::clone(registration))
                    .or_default() += 1;
            }
            let claims = store.claim(request).await?;
            for claimed in claims.rows {
                let registration = claimed.row.registration.clone();
                let step = step(store.clone(), settings.clone(), claimed, claims.now);
                in_hand.insert(steps.spawn(step).id(), registration);
            }
        }
        let moment = tokio::time::Instant::now() + Duration::from_millis(1);
        for _ in 0..32 {
            let ended = tokio::time::timeout_at(moment, steps.join_next_with_id()).await;
            let Ok(Some(step)) = ended else { break };
            let (id, written) = step?;
            written?;
            in_hand.remove(&id);
            done += 1;
        }
    }
    Ok(())
}

async fn step(
    store: Arc<dyn Store>,
    settings: Arc<Settings>,
    claimed: Claimed,
    now: Moment,
) -> anyhow::Result<()> {
    let Claimed {
        claim,
        row,
        surroundings,
        ..
    } = claimed;
    let facts = Facts {
        run: surroundings.run.unwrap_or(plan::RunState::Cancelled),
        access: Access::decide(surroundings.registration, &row.owner),
        answers: surroundings.answers,
    };
    let planned = plan::next(&row, &facts, &settings, now);
    ensure!(matches!(planned, Step::Poll(_)), "the row is to be polled");
    let expect = row.phase;
    let task = row.remote.clone().context("the row is linked")?;
    let state = RemoteState::Working;
    let answer = PollAnswer::State { task, state };
    let after = plan::polled(row, answer, &settings, now, Jitter::NONE);
    let written = store.write(Write::new(claim, expect, after)).await?;
    ensure!(written == Written::Applied, "nobody else is here");
    Ok(())
}
