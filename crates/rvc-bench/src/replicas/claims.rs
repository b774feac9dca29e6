use std::time::{Duration, Instant};

use anyhow::ensure;
use futures_util::future::try_join_all;
use rvc_durable::store::{ClaimRequest, LeaseOwner, PostgresStore, Store as _};
use tokio_postgres::Client;

use super::database::Database;

/// Due rows, and many times what is leased at once.
pub(super) const ROWS: u32 = 20_000;

pub(super) const REGISTRATIONS: u32 = 8;

/// A supervisor's pool, and as many claims at once.
pub(super) const CONNECTIONS: u32 = 4;

/// Rows of one claim: the supervisor's.
const BATCH: u32 = 32;

/// Rounds of claims in one run, one on each connection.
const ROUNDS: u32 = 60;

/// What the store's claim takes.
pub(super) fn rows_per_second(database: &Database) -> anyhow::Result<f64> {
    database.block_on(async {
        let store = database.store(CONNECTIONS as usize).await?;
        let claim = || claim(&store);
        rounds(database, "mcp_action_tasks", claim).await
    })
}

async fn claim(store: &PostgresStore) -> anyhow::Result<Vec<String>> {
    let request = ClaimRequest::new(LeaseOwner::draw(), BATCH, Duration::from_secs(30));
    let claims = store.claim(request).await?;
    let actions = claims.rows.iter().map(|it| it.row.action.to_string());
    Ok(actions.collect())
}

/// Rows in a second of `claim`, that many at once. Between the rounds, and not measured, what was
/// claimed in `table` goes to the end of the queue.
pub(super) async fn rounds<F>(
    database: &Database,
    table: &str,
    mut claim: impl FnMut() -> F,
) -> anyhow::Result<f64>
where
    F: Future<Output = anyhow::Result<Vec<String>>>,
{
    let beside = database.connect().await?;
    database.settle(&beside).await?;
    let mut measured = Duration::ZERO;
    for round in 0..=ROUNDS {
        let claims = (0..CONNECTIONS).map(|_| claim());
        let begun = Instant::now();
        let claimed = try_join_all(claims).await?.concat();
        // In the first the statement is prepared on each connection.
        if round > 0 {
            measured += begun.elapsed();
        }
        give_back(&beside, table, &claimed).await?;
    }
    Ok(f64::from(ROUNDS * CONNECTIONS * BATCH) / measured.as_secs_f64())
}

async fn give_back(beside: &Client, table: &str, claimed: &Vec<String>) -> anyhow::Result<()> {
    let sql = format!(
        "UPDATE {table} SET next_due = store_now(NULL), lease_owner = NULL, lease_until = NULL \
         WHERE action_id = ANY ($1)"
    );
    let given = beside.execute(&sql, &[claimed]).await?;
    let expected = u64::from(CONNECTIONS * BATCH);
    ensure!(
        given == expected,
        "there is always enough, and nothing is claimed twice"
    );
    Ok(())
}
