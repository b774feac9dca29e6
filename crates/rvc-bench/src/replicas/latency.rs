use std::time::{Duration, Instant};

use anyhow::ensure;
use futures_util::future::{poll_fn, try_join_all};
use rvc_durable::store::{
    ClaimRequest, Claimed, LeaseOwner, PostgresStore, Store as _, Write, Written,
};
use tokio_postgres::{AsyncMessage, NoTls};

use super::database::Database;

pub(super) const ROWS: u32 = 1_000_000;

pub(super) const REGISTRATIONS: u32 = 16;

/// The others are due within the next day.
pub(super) const DUE_ONE_IN: u32 = 21;

/// When row `i` is due, in milliseconds from now.
pub(super) fn due() -> String {
    format!("CASE WHEN i % {DUE_ONE_IN} = 0 THEN 0 ELSE 600000 + i * 86 END")
}

/// Claims of one run.
pub(super) const CLAIMS: u32 = 200;

/// What 99 of 100 claims take at most.
pub(super) fn p99_ms(database: &Database) -> anyhow::Result<f64> {
    database.block_on(async {
        let store = database.store(4).await?;
        let owner = LeaseOwner::draw();
        let mut took = Vec::new();
        for _ in 0..=CLAIMS {
            let request = ClaimRequest::new(owner, 32, Duration::from_secs(30));
            let begun = Instant::now();
            let claims = store.claim(request).await?;
            took.push(begun.elapsed());
            ensure!(claims.rows.len() == 32, "there is always enough");
            try_join_all(claims.rows.into_iter().map(|it| write_back(&store, it))).await?;
        }
        // The first has the statement prepared.
        took.remove(0);
        took.sort_unstable();
        Ok(took[took.len() * 99 / 100].as_secs_f64() * 1000.0)
    })
}

/// As a poll that brought nothing new.
async fn write_back(store: &PostgresStore, claimed: Claimed) -> anyhow::Result<()> {
    let expect = claimed.row.phase;
    let mut row = claimed.row;
    row.polls += 1;
    row.next_due = row
        .next_due
        .map(|due| due.after(Duration::from_secs(86_400)));
    let written = store.write(Write::new(claimed.claim, expect, row)).await?;
    ensure!(written == Written::Applied, "nobody else is here");
    Ok(())
}

/// How the claim reads rows, by the engine's own account of the statements in it. The account
/// itself goes to standard error.
pub(super) fn scans(database: &Database) -> anyhow::Result<String> {
    let plans = database.block_on(plans(database))?;
    eprintln!("{plans}");
    let mut scans: Vec<&str> = plans
        .lines()
        .filter_map(|line| line.split("  (cost").next()?.split("->  ").nth(1))
        .filter_map(|node| node.split_once(" on mcp_action_tasks"))
        .filter_map(|(scan, _)| scan.contains("Scan").then_some(scan))
        .collect();
    scans.sort_unstable();
    scans.dedup();
    Ok(scans.join(", "))
}

async fn plans(database: &Database) -> anyhow::Result<String> {
    let (client, mut connection) = tokio_postgres::connect(&database.url(), NoTls).await?;
    let notices = tokio::spawn(async move {
        let mut plans = String::new();
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notice(notice) = message? {
                plans.extend([notice.message(), "\n"]);
            }
        }
        anyhow::Ok(plans)
    });
    client
        .batch_execute(
            "LOAD 'auto_explain';
             SET auto_explain.log_min_duration = 0;
             SET auto_explain.log_nested_statements = on;
             SET auto_explain.log_analyze = on;
             SET client_min_messages = log;
             BEGIN;
             SELECT count(*) FROM claim_due(holder => 'bench', at => NULL, wanted => 32, mine => '{}',
                 per_registration => 32, hands => '{}', in_hands => '{}', served => NULL,
                 lease_ms => 30000, horizon_ms => 604800000);
             ROLLBACK;",
        )
        .await?;
    drop(client);
    notices.await?
}
