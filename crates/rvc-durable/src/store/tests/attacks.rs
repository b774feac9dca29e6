//! Raw SQL against the invariants: the constraints hold without the program's help.

use super::sql::{Refused, Sql};
use super::*;

/// A database with one action in each interesting place.
fn database() -> Sql {
    let db = Sql::new();
    db.execute("INSERT INTO runs (run_id, owner_id, created_at) VALUES ('run', 'local', 0);")
        .unwrap();
    for action in ["intent", "sending", "working", "done", "other"] {
        db.execute(&format!(
            "INSERT INTO actions (action_id, run_id) VALUES ('{action}', 'run');
             INSERT INTO mcp_action_tasks (action_id, run_id, owner_id, registration_id, host, tool,
                 arguments, request_hash, policy, surfaces_input, created_at, next_due, updated_at)
             VALUES ('{action}', 'run', 'local', 'robot', 'ledger', 't', '{{}}', 'h',
                 'at_most_once', '0', 0, 0, 0);"
        ))
        .unwrap();
    }
    db.execute(
        "UPDATE mcp_action_tasks SET phase = 'sending', starts = 1, fence = 7
         WHERE action_id IN ('sending', 'working', 'done');
         UPDATE mcp_action_tasks SET phase = 'working', kind = 'mcp', remote_task_id = 't-1',
             remote_created_at = 't0' WHERE action_id = 'working';
         INSERT INTO mcp_action_outcomes VALUES ('done', 'failed', 'X', 'x', NULL, NULL, 1);
         UPDATE actions SET state = 'failed', finished_at = 1 WHERE action_id = 'done';
         UPDATE mcp_action_tasks SET phase = 'failed', next_due = NULL WHERE action_id = 'done';",
    )
    .unwrap();
    db
}

#[test]
#[allow(clippy::too_many_lines)]
fn every_attack_on_an_invariant_is_refused_by_the_database_itself() {
    let db = database();
    for (fact, attack) in [
        (
            "one row per action",
            "INSERT INTO mcp_action_tasks SELECT * FROM mcp_action_tasks WHERE action_id = 'intent'",
        ),
        (
            "one action per remote task",
            "UPDATE mcp_action_tasks SET kind = 'mcp', remote_task_id = 't-1', remote_created_at = 't0' WHERE action_id = 'other'",
        ),
        (
            "a remote id is written once",
            "UPDATE mcp_action_tasks SET remote_task_id = 't-2' WHERE action_id = 'working'",
        ),
        (
            "a remote id is not taken back",
            "UPDATE mcp_action_tasks SET remote_task_id = NULL, kind = NULL, remote_created_at = NULL WHERE action_id = 'working'",
        ),
        (
            "an outcome is not changed",
            "UPDATE mcp_action_outcomes SET phase = 'cancelled'",
        ),
        (
            "an outcome is not deleted",
            "DELETE FROM mcp_action_outcomes",
        ),
        (
            "one outcome per action",
            "INSERT INTO mcp_action_outcomes VALUES ('done', 'failed', 'Y', 'y', NULL, NULL, 2)",
        ),
        (
            "an outcome is not replaced",
            "INSERT INTO mcp_action_outcomes VALUES ('done', 'failed', 'Y', 'y', NULL, NULL, 2) ON CONFLICT (action_id) DO UPDATE SET message = 'y'",
        ),
        ("an outcome has no back door", db.dialect()),
        (
            "no success without a result",
            "INSERT INTO mcp_action_outcomes VALUES ('working', 'completed', NULL, '', NULL, NULL, 1)",
        ),
        (
            "no success with an error",
            "INSERT INTO mcp_action_outcomes VALUES ('working', 'completed', NULL, '', '1', '{}', 1)",
        ),
        (
            "a failure has a code",
            "INSERT INTO mcp_action_outcomes VALUES ('working', 'failed', NULL, '', NULL, NULL, 1)",
        ),
        (
            "a final phase is not left",
            "UPDATE mcp_action_tasks SET phase = 'working', next_due = 0 WHERE action_id = 'done'",
        ),
        (
            "a final phase is not exchanged",
            "UPDATE mcp_action_tasks SET phase = 'cancelled' WHERE action_id = 'done'",
        ),
        (
            "a final phase needs its outcome",
            "UPDATE mcp_action_tasks SET phase = 'completed', next_due = NULL WHERE action_id = 'working'",
        ),
        (
            "an action ends with its outcome",
            "UPDATE actions SET state = 'completed', finished_at = 1 WHERE action_id = 'working'",
        ),
        (
            "an ended action does not change",
            "UPDATE actions SET state = 'cancelled' WHERE action_id = 'done'",
        ),
        (
            "an action is not deleted",
            "DELETE FROM actions WHERE action_id = 'intent'",
        ),
        (
            "a linkage is not deleted",
            "DELETE FROM mcp_action_tasks WHERE action_id = 'intent'",
        ),
        (
            "the clean-up's columns close with it",
            "UPDATE mcp_action_tasks SET cancel_asked = 1 WHERE action_id = 'done'",
        ),
        (
            "a closed clean-up is not opened",
            "UPDATE mcp_action_tasks SET clean_up_open = '1', next_due = 0 WHERE action_id = 'done'",
        ),
        (
            "a fence does not fall",
            "UPDATE mcp_action_tasks SET fence = 6 WHERE action_id = 'working'",
        ),
        (
            "one start under at_most_once",
            "UPDATE mcp_action_tasks SET starts = 2 WHERE action_id = 'sending'",
        ),
        (
            "a start is not forgotten",
            "UPDATE mcp_action_tasks SET starts = 0 WHERE action_id = 'working'",
        ),
        (
            "an unknown start is not repeated",
            "UPDATE mcp_action_tasks SET phase = 'intent' WHERE action_id = 'sending'",
        ),
        (
            "starts do not jump",
            "UPDATE mcp_action_tasks SET phase = 'sending', starts = 2 WHERE action_id = 'intent'",
        ),
        (
            "the request does not change",
            "UPDATE mcp_action_tasks SET arguments = '[]' WHERE action_id = 'intent'",
        ),
        (
            "a phase is one of ten",
            "UPDATE mcp_action_tasks SET phase = 'queued' WHERE action_id = 'intent'",
        ),
        (
            "an open row is due some day",
            "UPDATE mcp_action_tasks SET next_due = NULL WHERE action_id = 'working'",
        ),
        (
            "a lease has owner and end",
            "UPDATE mcp_action_tasks SET lease_owner = 'me' WHERE action_id = 'working'",
        ),
        (
            "a negative time to live is none",
            "UPDATE mcp_action_tasks SET remote_ttl_ms = -5 WHERE action_id = 'working'",
        ),
        (
            "an endpoint carries no user",
            "INSERT INTO registrations VALUES ('r', 'o', 'http://u:p@h/', 'sse', '1')",
        ),
    ] {
        db.execute("BEGIN").unwrap();
        let refused = db.execute(attack).and_then(|()| db.execute("COMMIT"));
        let _ = db.execute("ROLLBACK");
        assert_eq!(refused, Err(Refused::Invariant), "{fact}: {attack}");
    }
}

#[test]
fn a_cancelled_run_stays_cancelled() {
    let db = database();
    db.execute("UPDATE runs SET state = 'cancelled'").unwrap();

    let refused = db.execute("UPDATE runs SET state = 'active'");
    assert_eq!(refused, Err(Refused::Invariant));
}

#[test]
fn a_proven_unsent_start_may_be_taken_back() {
    let db = database();

    db.execute(
        "UPDATE mcp_action_tasks SET phase = 'intent', starts = 0 WHERE action_id = 'sending'",
    )
    .unwrap();
}

#[tokio::test]
async fn a_remote_task_of_another_action_is_not_linked() {
    let (store, clock) = open();
    submit(&store, "a", "robot").await;
    submit(&store, "b", "robot").await;
    let mut claimed = claim(&store, 2).await;
    let (second, first) = (claimed.pop().unwrap(), claimed.pop().unwrap());
    link(&store, first, "t-1", clock.now()).await;

    let sending = plan::begun(second.row, clock.now());
    let begin = Write::new(second.claim.clone(), crate::Phase::Intent, sending.clone());
    store.write(begin.keep_lease()).await.unwrap();
    let mut stolen = sending;
    stolen.remote = Some(remote("t-1"));
    stolen.phase = crate::Phase::Working;
    let write = Write::new(second.claim, crate::Phase::Sending, stolen);

    assert_eq!(store.write(write).await, Ok(Written::RemoteTaken));
}
