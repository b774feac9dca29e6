use rvc_durable::store::LeaseOwner;
use tokio_postgres::{Client, Statement};

use super::claims::{CONNECTIONS, rounds};
use super::database::Database;

/// Makes a bare table of the store's rows.
pub(super) fn create(database: &Database) -> anyhow::Result<()> {
    database.block_on(async {
        let client = database.connect().await?;
        let sql = "CREATE TABLE plain (LIKE mcp_action_tasks) WITH (fillfactor = 70);
            INSERT INTO plain SELECT * FROM mcp_action_tasks;
            ALTER TABLE plain ADD PRIMARY KEY (action_id);
            CREATE INDEX plain_due ON plain (next_due, action_id) WHERE next_due IS NOT NULL;";
        client.batch_execute(sql).await?;
        Ok(())
    })
}

/// What the engine takes when nothing is shared out, guarded, joined or decoded.
pub(super) fn rows_per_second(database: &Database) -> anyhow::Result<f64> {
    database.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = database.connect().await?;
            let statement = client.prepare(CLAIM).await?;
            connections.push((client, statement));
        }
        let mut turns = connections.iter().cycle();
        rounds(database, "plain", || {
            claim(turns.next().expect("a cycle has no end"))
        })
        .await
    })
}

async fn claim((client, statement): &(Client, Statement)) -> anyhow::Result<Vec<String>> {
    let owner = LeaseOwner::draw().to_string();
    let rows = client.query(statement, &[&owner]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

// `now()` is the same for the whole statement, so it can bound the range of the index.
const CLAIM: &str = "UPDATE plain \
    SET lease_owner = $1, lease_until = (extract(epoch FROM now()) * 1000)::bigint + 30000, \
        fence = fence + 1 \
    WHERE action_id IN (SELECT action_id FROM plain \
        WHERE next_due <= (extract(epoch FROM now()) * 1000)::bigint \
            AND (lease_until IS NULL OR lease_until <= (extract(epoch FROM now()) * 1000)::bigint) \
        ORDER BY next_due FOR UPDATE SKIP LOCKED LIMIT 32) RETURNING *";
