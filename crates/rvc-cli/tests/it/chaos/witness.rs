//! What the database itself saw: triggers of the test's own, and the rows at the end. Read with
//! `psql`, so that none of the code under test has a part in it.

use rvc_test::postgres::Cluster;

use super::DATABASE;
use super::history::{Journal, Seen};

/// Watches the tables from now on.
pub(super) fn install(cluster: &Cluster) {
    cluster.query(DATABASE, TRIGGERS).unwrap();
}

/// How many rows have something left to do.
pub(super) fn open_rows(cluster: &Cluster) -> std::io::Result<u64> {
    let counted = cluster.query(
        DATABASE,
        "SELECT count(*) FROM mcp_action_tasks WHERE next_due IS NOT NULL",
    )?;
    counted.trim().parse().map_err(std::io::Error::other)
}

/// Writes down all that the triggers saw, and every row.
pub(super) fn dump(cluster: &Cluster, journal: &Journal) {
    for query in [WRITTEN, ROWS] {
        for line in cluster.query(DATABASE, query).unwrap().lines() {
            let (at, seen) = line.split_once(' ').unwrap();
            let seen: Seen = serde_json::from_str(seen).expect(line);
            journal.write_at(at.parse().unwrap(), seen);
        }
    }
}

const TRIGGERS: &str = r"
CREATE TABLE chaos_seen (
    n bigserial PRIMARY KEY,
    at bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    transaction text NOT NULL DEFAULT txid_current()::text,
    writer text NOT NULL DEFAULT current_setting('application_name'),
    what text NOT NULL,
    change text NOT NULL,
    action text NOT NULL,
    before text,
    after text
);

CREATE FUNCTION chaos_outcome() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_seen (what, change, action, before, after) VALUES (
        'outcome', TG_OP, coalesce(NEW.action_id, OLD.action_id),
        OLD.phase || ' ' || coalesce(OLD.error_code, ''),
        NEW.phase || ' ' || coalesce(NEW.error_code, ''));
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_outcome AFTER INSERT OR UPDATE OR DELETE ON mcp_action_outcomes
    FOR EACH ROW EXECUTE FUNCTION chaos_outcome();

CREATE FUNCTION chaos_action() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_seen (what, change, action, before, after) VALUES (
        'action', TG_OP, coalesce(NEW.action_id, OLD.action_id), OLD.state, NEW.state);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_action AFTER INSERT OR UPDATE OR DELETE ON actions
    FOR EACH ROW EXECUTE FUNCTION chaos_action();

CREATE FUNCTION chaos_linkage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.phase <> OLD.phase THEN
        INSERT INTO chaos_seen (what, change, action, before, after) VALUES (
            'phase', TG_OP, NEW.action_id, OLD.phase, NEW.phase);
    END IF;
    IF NEW.remote_task_id IS DISTINCT FROM OLD.remote_task_id THEN
        INSERT INTO chaos_seen (what, change, action, before, after) VALUES (
            'linkage', TG_OP, NEW.action_id, OLD.remote_task_id, NEW.remote_task_id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_linkage AFTER UPDATE ON mcp_action_tasks
    FOR EACH ROW EXECUTE FUNCTION chaos_linkage();
";

const WRITTEN: &str = "
SELECT at || ' ' || json_build_object('seen', 'wrote', 'transaction', transaction,
    'writer', writer, 'what', what, 'change', change, 'action', action, 'before', before, 'after', after)
FROM chaos_seen ORDER BY n";

const ROWS: &str = "
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint || ' ' || json_build_object(
    'seen', 'row', 'action', t.action_id, 'phase', t.phase, 'state', coalesce(a.state, 'foreign'),
    'is_open', t.next_due IS NOT NULL, 'starts', t.starts,
    'remote_task', t.remote_task_id, 'cancels_asked', t.cancel_asked)
FROM mcp_action_tasks t LEFT JOIN actions a USING (action_id) ORDER BY t.action_id";
