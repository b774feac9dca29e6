use futures_util::future::BoxFuture;
use rvc_wire::Map;

use super::database::Session;
use super::failure::Failure;
use super::{ledger, listener};
use crate::linkage::RemoteKind;
use crate::name::{ActionId, RegistrationId};
use crate::store::AnswerOutcome;
use crate::store::record::{self, Value};

pub(super) fn answer<'a>(
    session: &'a Session<'a>,
    (action, answers): &'a (ActionId, Map),
) -> BoxFuture<'a, Result<AnswerOutcome, Failure>> {
    Box::pin(async move {
        let Some((_, row)) = ledger::lock(session, action).await? else {
            return Ok(AnswerOutcome::Unknown);
        };
        // A key is never reused, so it is answered once. What the server refused is not there any
        // more.
        let sql = "SELECT input_key, answer FROM mcp_input_answers WHERE action_id = $1";
        let known = session.rows(sql, &[Value::text(action.as_str())]).await?;
        let mut stored = Map::new();
        for row in &known {
            let key = record::text(row, 0)?.into_owned();
            stored.insert(key, record::json(&record::text(row, 1)?)?);
        }
        if session.again()
            && !answers.is_empty()
            && answers
                .iter()
                .all(|(key, answer)| stored.get(key) == Some(answer))
        {
            // By an attempt whose commit was not answered.
            return Ok(AnswerOutcome::Stored);
        }
        let asked =
            |key: &String| row.input_requests.contains_key(key) && !stored.contains_key(key);
        if answers.is_empty() || !answers.keys().all(asked) {
            return Ok(AnswerOutcome::NotAsked);
        }
        for (key, answer) in answers {
            let answer = answer.to_string();
            let values = [
                Value::text(action.as_str()),
                Value::text(key),
                Value::text(&answer),
            ];
            let sql = "INSERT INTO mcp_input_answers (action_id, input_key, answer) \
                VALUES ($1, $2, $3)";
            session.change(sql, &values).await?;
        }
        wake(session, action).await?;
        Ok(AnswerOutcome::Stored)
    })
}

pub(super) fn wake<'a>(
    session: &'a Session<'a>,
    action: &'a ActionId,
) -> BoxFuture<'a, Result<bool, Failure>> {
    Box::pin(async move {
        let sql = "UPDATE mcp_action_tasks SET wakes = wakes + 1, \
            next_due = least(next_due, store_now($2)) \
            WHERE action_id = $1 AND next_due IS NOT NULL";
        let values = [Value::text(action.as_str()), session.at()];
        let woken = session.change(sql, &values).await? == 1;
        if woken {
            session.tell(listener::due());
        }
        Ok(woken)
    })
}

pub(super) fn wake_remote<'a>(
    session: &'a Session<'a>,
    (registration, kind, id): &'a (RegistrationId, RemoteKind, String),
) -> BoxFuture<'a, Result<u64, Failure>> {
    Box::pin(async move {
        // By the hashes that the index has; locked in order, against deadlocks.
        let sql = "WITH named AS MATERIALIZED ( \
                SELECT action_id FROM mcp_action_tasks \
                WHERE registration_id = $1 AND kind = $2 \
                AND hashtextextended(remote_task_id, 0) = hashtextextended($3::text, 0) \
                AND hashtextextended(remote_task_id, 1) = hashtextextended($3::text, 1) \
                AND remote_task_id = $3 AND next_due IS NOT NULL \
                ORDER BY action_id FOR NO KEY UPDATE) \
            UPDATE mcp_action_tasks AS t SET wakes = t.wakes + 1, \
                next_due = least(t.next_due, store_now($4)) \
            FROM named WHERE t.action_id = named.action_id AND t.next_due IS NOT NULL";
        let values = [
            Value::text(registration.as_str()),
            Value::text(kind.as_str()),
            Value::text(id),
            session.at(),
        ];
        let woken = session.change(sql, &values).await?;
        if woken > 0 {
            session.tell(listener::due());
        }
        Ok(woken)
    })
}
