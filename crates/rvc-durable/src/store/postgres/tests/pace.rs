//! Which operations wait for the disk.

use std::collections::BTreeSet;

use super::*;
use crate::outcome::Outcome;
use crate::store::tests::TABLES;

/// Sees at each commit how long it waits.
struct Watch {
    store: PostgresStore,
    client: tokio_postgres::Client,
    /// What each operation did.
    seen: Vec<(&'static str, String)>,
    _database: Database,
}

impl Watch {
    async fn new() -> Self {
        let database = Database::create().await;
        drop(database.store().await);
        let client = database.client().await;
        let triggers = TABLES.map(|table| {
            format!(
                "CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON {table}
                 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();"
            )
        });
        // Deferred: what it reads is what the commit goes by. And a server that waits for
        // nothing unless it is told to.
        let sql = format!(
            "CREATE TABLE pace (pace text);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO pace VALUES (current_setting('synchronous_commit'));
                 RETURN NULL; END $$;
             {}
             ALTER DATABASE {} SET synchronous_commit = off",
            triggers.concat(),
            database.name
        );
        client.batch_execute(&sql).await.unwrap();
        Self {
            store: database.store().await,
            client,
            seen: Vec::new(),
            _database: database,
        }
    }

    /// Writes down what the operation before this did.
    async fn was(&mut self, operation: &'static str) {
        let sql = "WITH seen AS (DELETE FROM pace RETURNING pace) SELECT pace FROM seen";
        let rows = self.client.query(sql, &[]).await.unwrap();
        let paces: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let paces: Vec<String> = paces.into_iter().collect();
        self.seen.push((operation, paces.join(" and ")));
    }

    async fn submit(&mut self, submission: Submission, host: HostKind) {
        let submitted = self.store.submit(submission, host).await;
        assert_eq!(submitted, Ok(Submitted::New));
        self.was("submit").await;
    }

    /// Claims the action, which is made due.
    async fn claim(&mut self, action: &str) -> Claimed {
        assert_eq!(self.store.wake(id(action)).await, Ok(true));
        self.was("wake").await;
        let claimed = claim(&self.store).await;
        assert_eq!(claimed.row.action, id(action));
        self.was("claim").await;
        claimed
    }

    async fn write(&mut self, operation: &'static str, write: Write) {
        assert_eq!(self.store.write(write).await, Ok(Written::Applied));
        self.was(operation).await;
    }

    /// Claims an action and writes it back, with a change.
    async fn step(
        &mut self,
        operation: &'static str,
        action: &str,
        change: impl FnOnce(&mut Linkage),
    ) {
        let Claimed { claim, mut row, .. } = self.claim(action).await;
        let expect = row.phase;
        change(&mut row);
        self.write(operation, Write::new(claim, expect, row)).await;
    }

    /// Submits an action and links it to a remote task.
    async fn link(&mut self, action: &str, host: HostKind) {
        self.submit(submission(action), host).await;
        let claimed = self.claim(action).await;
        let (begin, sending) = begin(&claimed);
        self.write("begin a start", begin).await;
        let link = answered(&claimed, sending, StartAnswer::Task(remote(action)));
        self.write("link", link).await;
    }
}

fn ended(row: &mut Linkage) {
    let now = row.created_at;
    let outcome = Outcome::failed(crate::ErrorCode::remote("X"), "x");
    row.remote.as_mut().unwrap().ended = true;
    *row = plan::settled(row.clone(), outcome, now);
}

/// An action under way, from its registration to its outcome.
async fn follow(watch: &mut Watch) {
    let store = watch.store.clone();
    store.put_registration(robot()).await.unwrap();
    watch.was("put a registration").await;
    let enabled = store.enable_registration(id("robot"), false).await;
    assert_eq!(enabled, Ok(true));
    watch.was("disable a registration").await;

    watch.link("a", HostKind::Ledger).await;
    let claimed = watch.claim("a").await;
    let lease = Duration::from_secs(30);
    let renewed = store.renew(claimed.claim.clone(), lease).await;
    assert_eq!(renewed, Ok(Renewed::Held));
    watch.was("renew").await;
    store.release(claimed.claim).await.unwrap();
    watch.was("release").await;
    watch.step("poll", "a", |row| row.polls += 1).await;
    let woken = store.wake_remote(id("robot"), RemoteKind::Mcp, "a".into());
    assert_eq!(woken.await, Ok(1));
    watch.was("wake by a push").await;

    let ask = |row: &mut Linkage| {
        row.phase = Phase::InputRequired;
        let requests = serde_json::json!({"k": {}});
        row.input_requests = requests.as_object().cloned().unwrap();
    };
    watch.step("poll that asks for input", "a", ask).await;
    let answers = serde_json::json!({"k": {"action": "accept"}});
    let answers = answers.as_object().cloned().unwrap();
    store.answer(id("a"), answers).await.unwrap();
    watch.was("answer").await;
    let Claimed { claim, row, .. } = watch.claim("a").await;
    let sent = Write::new(claim, Phase::InputRequired, row).answered(vec!["k".into()]);
    watch.write("answers are sent", sent).await;
    let asks_no_more = |row: &mut Linkage| {
        row.phase = Phase::Working;
        row.input_requests.clear();
    };
    watch
        .step("poll that asks no more", "a", asks_no_more)
        .await;
    watch.step("outcome", "a", ended).await;
}

/// Cancels of the host, and what follows of them at the server.
async fn cancel(watch: &mut Watch) {
    let store = watch.store.clone();
    watch.link("b", HostKind::Ledger).await;
    let cancelled = store.cancel_action(id("b")).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    watch.was("cancel").await;
    let asked = |row: &mut Linkage| {
        row.clean_up.asked += 1;
        row.clean_up.acknowledged_at = Some(row.created_at);
    };
    watch.step("cancel is acknowledged", "b", asked).await;
    watch
        .step("look after a cancel", "b", |row| row.clean_up.looked += 1)
        .await;
    let closed = |row: &mut Linkage| *row = plan::closed(row.clone());
    watch.step("clean-up is closed", "b", closed).await;

    watch
        .submit(submission("c").run(id("run")), HostKind::Ledger)
        .await;
    let cancelled = store.cancel_run(id("run")).await;
    assert_eq!(cancelled, Ok(Some(vec![id("c")])));
    watch.was("cancel a run").await;
}

/// What a foreign host is told.
async fn deliver(watch: &mut Watch) {
    for (action, end) in [("d", "delivery"), ("e", "suppression")] {
        watch.link(action, HostKind::Foreign).await;
        watch.step("accept", action, ended).await;
        let failed = |row: &mut Linkage| row.trouble.errors += 1;
        watch.step("delivery that failed", action, failed).await;
        let told = |row: &mut Linkage| {
            let after = if end == "delivery" {
                plan::delivered
            } else {
                plan::suppressed
            };
            *row = after(row.clone(), row.created_at);
        };
        watch.step(end, action, told).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn only_the_bookkeeping_of_polls_and_leases_does_not_wait_for_the_disk() {
    let mut watch = Watch::new().await;
    follow(&mut watch).await;
    cancel(&mut watch).await;
    deliver(&mut watch).await;
    watch.submit(submission("f"), HostKind::Ledger).await;
    let nobody = |row: &mut Linkage| row.trouble.errors += 1;
    watch.step("start that reached nobody", "f", nobody).await;
    let removed = watch.store.remove_registration(id("robot")).await;
    assert_eq!(removed, Ok(true));
    watch.was("remove a registration").await;

    let expected = |operation| match operation {
        "renew" | "release" | "poll" | "start that reached nobody" => "off",
        _ => "on",
    };
    for (operation, pace) in &watch.seen {
        assert_eq!(pace, expected(*operation), "{operation}: {:?}", watch.seen);
    }
}
