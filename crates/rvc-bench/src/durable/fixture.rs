use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;
use rvc_durable::store::SqliteStore;
use tempfile::TempDir;

/// A store's database with linked tasks, which goes when it is dropped.
pub(crate) struct Fixture {
    directory: TempDir,
}

impl Fixture {
    /// `rows` working tasks of `registrations` servers, due after `due`.
    pub(crate) fn new(rows: u32, registrations: u32, due: Duration) -> anyhow::Result<Self> {
        // Beside the program and not in the system's place for what is temporary, which may be
        // in memory.
        let program = std::env::current_exe()?;
        let place = program.parent().unwrap_or(&program);
        let fixture = Self {
            directory: tempfile::tempdir_in(place)?,
        };
        drop(SqliteStore::open(fixture.path())?);
        let db = Connection::open(fixture.path())?;
        let last = registrations - 1;
        db.execute_batch(&format!(
            "BEGIN;
             WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {last})
             INSERT INTO registrations
             SELECT 'robot-' || i, 'local', 'http://robot/mcp', 'streamable-http', 1 FROM n;
             INSERT INTO runs (run_id, owner_id, created_at) VALUES ('run', 'local', 0);
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             INSERT INTO actions (action_id, run_id) SELECT 'action-' || i, 'run' FROM n;
             INSERT INTO mcp_action_tasks (action_id, run_id, owner_id, registration_id, host,
                 tool, arguments, request_hash, policy, surfaces_input, created_at, phase, starts,
                 sent_at, kind, remote_task_id, remote_created_at, remote_task_status, progress,
                 remote_ttl_ms, poll_interval_ms, next_due, updated_at)
             SELECT action_id, 'run', 'local',
                 'robot-' || (CAST(substr(action_id, 8) AS INTEGER) % {registrations}), 'ledger',
                 'navigate_to', '{{\"to\":\"kitchen\"}}', 'hash', 'at_most_once', 0, 0, 'working',
                 1, unixepoch() * 1000, 'mcp', 'task-' || substr(action_id, 8),
                 '2026-01-01T00:00:00Z', 'working', 'driving', 86400000, 60000,
                 unixepoch() * 1000 + {due}, 0 FROM actions;
             COMMIT;
             PRAGMA wal_checkpoint(TRUNCATE);",
            due = due.as_millis(),
        ))?;
        Ok(fixture)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("durable.db")
    }
}
