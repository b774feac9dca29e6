-- The ledger: a host's runs and actions, authoritative, also for cancellation.
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    owner_id TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'cancelled')),
    created_at INTEGER NOT NULL,
    cancelled_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE actions (
    action_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    state TEXT NOT NULL DEFAULT 'pending'
        CHECK (state IN ('pending', 'completed', 'failed', 'cancelled')),
    finished_at INTEGER,
    CHECK ((state = 'pending') = (finished_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX actions_of_a_run ON actions (run_id);

-- Remote servers. No credentials: the type that writes here refuses them.
CREATE TABLE registrations (
    registration_id TEXT PRIMARY KEY,
    owner_id TEXT NOT NULL,
    endpoint TEXT NOT NULL CHECK (endpoint NOT LIKE '%@%'),
    transport TEXT NOT NULL CHECK (transport IN ('streamable-http', 'sse')),
    enabled INTEGER NOT NULL CHECK (enabled IN (0, 1))
) STRICT, WITHOUT ROWID;

-- The linkage: what is known of an action's remote task.
CREATE TABLE mcp_action_tasks (
    action_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    owner_id TEXT NOT NULL,
    registration_id TEXT NOT NULL,
    host TEXT NOT NULL CHECK (host IN ('ledger', 'foreign')),
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL CHECK (json_valid(arguments)),
    request_hash TEXT NOT NULL,
    policy TEXT NOT NULL CHECK (policy IN ('at_most_once', 'server_dedup', 'idempotent_tool')),
    surfaces_input INTEGER NOT NULL CHECK (surfaces_input IN (0, 1)),
    execution_deadline_at INTEGER,
    assumed_ttl_ms INTEGER CHECK (assumed_ttl_ms >= 0),
    tool_call_id TEXT,
    provider TEXT,
    created_at INTEGER NOT NULL,

    -- Among the first 32: for a trigger on a later column the engine reads the whole row first.
    fence INTEGER NOT NULL DEFAULT 0,
    phase TEXT NOT NULL DEFAULT 'intent' CHECK (phase IN (
        'intent', 'sending', 'working', 'input_required', 'accepted',
        'completed', 'failed', 'cancelled', 'expired', 'unknown')),
    starts INTEGER NOT NULL DEFAULT 0 CHECK (starts >= 0),
    sent_at INTEGER,
    kind TEXT CHECK (kind IN ('mcp', 'contract')),
    remote_task_id TEXT,
    remote_created_at TEXT,
    remote_task_status TEXT,
    remote_ended INTEGER NOT NULL DEFAULT 0 CHECK (remote_ended IN (0, 1)),
    progress TEXT,
    remote_ttl_ms INTEGER CHECK (remote_ttl_ms >= 0),
    poll_interval_ms INTEGER CHECK (poll_interval_ms >= 0),
    polls INTEGER NOT NULL DEFAULT 0,
    last_polled_at INTEGER,
    errors INTEGER NOT NULL DEFAULT 0,
    gone INTEGER NOT NULL DEFAULT 0,
    malformed INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    input_requests TEXT CHECK (input_requests IS NULL OR json_valid(input_requests)),
    clean_up_open INTEGER NOT NULL DEFAULT 0 CHECK (clean_up_open IN (0, 1)),
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    cancel_acknowledged_at INTEGER,
    looked INTEGER NOT NULL DEFAULT 0,

    next_due INTEGER,
    wakes INTEGER NOT NULL DEFAULT 0,
    lease_owner TEXT,
    lease_until INTEGER,
    updated_at INTEGER NOT NULL,

    CHECK (policy <> 'at_most_once' OR starts <= 1),
    CHECK ((kind IS NULL) = (remote_task_id IS NULL)),
    CHECK ((kind IS NULL) = (remote_created_at IS NULL)),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CHECK (clean_up_open = 0
        OR phase IN ('accepted', 'completed', 'failed', 'cancelled', 'expired', 'unknown')),
    -- Something is due exactly while something is left to do. Spelled out, since it is compared
    -- with every write: for IN the engine would make a table of the words each time.
    CHECK ((next_due IS NULL) = (clean_up_open = 0 AND (phase = 'completed' OR phase = 'failed'
        OR phase = 'cancelled' OR phase = 'expired' OR phase = 'unknown')))
) STRICT, WITHOUT ROWID;

-- Contract ids repeat after a restart: the creation tells such tasks apart.
CREATE UNIQUE INDEX one_action_per_remote_task
    ON mcp_action_tasks (registration_id, kind, remote_task_id, remote_created_at)
    WHERE remote_task_id IS NOT NULL;

CREATE INDEX due_by_registration ON mcp_action_tasks (registration_id, next_due)
    WHERE next_due IS NOT NULL;

-- For the census.
CREATE INDEX tasks_by_phase ON mcp_action_tasks (phase);
CREATE INDEX open_clean_ups ON mcp_action_tasks (cancel_acknowledged_at) WHERE clean_up_open = 1;

CREATE INDEX tasks_of_a_run ON mcp_action_tasks (run_id);

-- The time that a claim noted last: one that is well before it was set back.
CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), noted INTEGER NOT NULL) STRICT;

INSERT INTO clock VALUES (1, 0);

-- The outcome of an action, inserted once and never touched again.
CREATE TABLE mcp_action_outcomes (
    action_id TEXT PRIMARY KEY REFERENCES mcp_action_tasks (action_id),
    phase TEXT NOT NULL
        CHECK (phase IN ('completed', 'failed', 'cancelled', 'expired', 'unknown')),
    error_code TEXT,
    message TEXT NOT NULL,
    is_error INTEGER CHECK (is_error IN (0, 1)),
    result TEXT CHECK (result IS NULL OR json_valid(result)),
    finished_at INTEGER NOT NULL,
    -- Nothing but a result that is no error is a success.
    CHECK (phase <> 'completed' OR (result IS NOT NULL AND is_error = 0 AND error_code IS NULL)),
    CHECK (phase = 'completed' OR error_code IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- The host's answers to requests for input. A key is answered once.
CREATE TABLE mcp_input_answers (
    action_id TEXT NOT NULL REFERENCES mcp_action_tasks (action_id),
    input_key TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (json_valid(answer)),
    sent INTEGER NOT NULL DEFAULT 0 CHECK (sent IN (0, 1)),
    PRIMARY KEY (action_id, input_key)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER outcomes_are_never_changed BEFORE UPDATE ON mcp_action_outcomes
BEGIN SELECT RAISE(ABORT, 'an outcome is written once'); END;

CREATE TRIGGER outcomes_are_never_deleted BEFORE DELETE ON mcp_action_outcomes
BEGIN SELECT RAISE(ABORT, 'an outcome is written once'); END;

CREATE TRIGGER tasks_are_never_deleted BEFORE DELETE ON mcp_action_tasks
BEGIN SELECT RAISE(ABORT, 'a linkage is never deleted'); END;

CREATE TRIGGER the_request_never_changes BEFORE UPDATE OF
    action_id, run_id, owner_id, registration_id, host, tool, arguments, request_hash, policy
    ON mcp_action_tasks
BEGIN SELECT RAISE(ABORT, 'what was asked for never changes'); END;

CREATE TRIGGER a_final_phase_is_never_left BEFORE UPDATE OF phase ON mcp_action_tasks
WHEN OLD.phase IN ('completed', 'failed', 'cancelled', 'expired', 'unknown')
    AND NEW.phase <> OLD.phase
BEGIN SELECT RAISE(ABORT, 'a final phase is never left'); END;

CREATE TRIGGER a_phase_with_an_outcome_has_one BEFORE UPDATE OF phase ON mcp_action_tasks
WHEN NEW.phase IN ('accepted', 'completed', 'failed', 'cancelled', 'expired', 'unknown')
    AND NEW.phase <> OLD.phase
    AND NOT EXISTS (
        SELECT 1 FROM mcp_action_outcomes AS o
        WHERE o.action_id = NEW.action_id AND (NEW.phase = 'accepted' OR o.phase = NEW.phase
            -- A foreign host that cancelled before it was told suppresses the outcome.
            OR (OLD.phase = 'accepted' AND NEW.phase = 'cancelled')))
BEGIN SELECT RAISE(ABORT, 'the phase needs its outcome'); END;

CREATE TRIGGER an_outcome_ends_the_work BEFORE UPDATE OF phase ON mcp_action_tasks
WHEN NEW.phase IN ('intent', 'sending', 'working', 'input_required')
    AND EXISTS (SELECT 1 FROM mcp_action_outcomes AS o WHERE o.action_id = NEW.action_id)
BEGIN SELECT RAISE(ABORT, 'an outcome ends the work'); END;

CREATE TRIGGER a_remote_task_is_linked_once BEFORE UPDATE OF
    kind, remote_task_id, remote_created_at ON mcp_action_tasks
WHEN OLD.remote_task_id IS NOT NULL AND (NEW.remote_task_id IS NOT OLD.remote_task_id
    OR NEW.kind IS NOT OLD.kind OR NEW.remote_created_at IS NOT OLD.remote_created_at)
BEGIN SELECT RAISE(ABORT, 'a remote task is linked once'); END;

CREATE TRIGGER a_closed_clean_up_stays_closed BEFORE UPDATE OF
    clean_up_open, remote_task_id, remote_task_status, remote_ended, cancel_asked,
    cancel_acknowledged_at, looked ON mcp_action_tasks
WHEN OLD.clean_up_open = 0
    AND OLD.phase IN ('completed', 'failed', 'cancelled', 'expired', 'unknown')
    AND (NEW.clean_up_open IS NOT OLD.clean_up_open
        OR NEW.remote_task_id IS NOT OLD.remote_task_id
        OR NEW.remote_task_status IS NOT OLD.remote_task_status
        OR NEW.remote_ended IS NOT OLD.remote_ended
        OR NEW.cancel_asked IS NOT OLD.cancel_asked
        OR NEW.cancel_acknowledged_at IS NOT OLD.cancel_acknowledged_at
        OR NEW.looked IS NOT OLD.looked)
BEGIN SELECT RAISE(ABORT, 'a closed clean-up stays closed'); END;

CREATE TRIGGER a_fence_never_falls AFTER UPDATE OF fence ON mcp_action_tasks
WHEN NEW.fence < OLD.fence
BEGIN SELECT RAISE(ABORT, 'a fence never falls'); END;

-- A start is taken back only where it is proven that no byte was sent.
CREATE TRIGGER starts_are_counted BEFORE UPDATE OF starts ON mcp_action_tasks
WHEN NEW.starts > OLD.starts + 1
    OR (NEW.starts > OLD.starts AND NEW.phase <> 'sending')
    OR (NEW.starts < OLD.starts
        AND NOT (OLD.phase = 'sending' AND NEW.phase = 'intent' AND NEW.starts = OLD.starts - 1))
BEGIN SELECT RAISE(ABORT, 'starts are counted'); END;

-- From `sending` a start under at_most_once is not begun again.
CREATE TRIGGER an_unknown_start_is_not_repeated BEFORE UPDATE OF phase ON mcp_action_tasks
WHEN OLD.policy = 'at_most_once' AND OLD.phase = 'sending' AND NEW.phase = 'intent'
    AND NEW.starts >= OLD.starts
BEGIN SELECT RAISE(ABORT, 'an unknown start is not repeated'); END;

CREATE TRIGGER an_ended_action_never_changes BEFORE UPDATE ON actions
WHEN OLD.state <> 'pending'
BEGIN SELECT RAISE(ABORT, 'an ended action never changes'); END;

CREATE TRIGGER actions_are_never_deleted BEFORE DELETE ON actions
BEGIN SELECT RAISE(ABORT, 'an action is never deleted'); END;

CREATE TRIGGER a_cancelled_run_stays_cancelled BEFORE UPDATE ON runs
WHEN OLD.state = 'cancelled' AND NEW.state <> 'cancelled'
BEGIN SELECT RAISE(ABORT, 'a cancelled run stays cancelled'); END;

CREATE TRIGGER an_ended_action_has_its_outcome BEFORE UPDATE OF state ON actions
WHEN NEW.state <> 'pending' AND NOT EXISTS (
    SELECT 1 FROM mcp_action_outcomes AS o WHERE o.action_id = NEW.action_id
    AND NEW.state = CASE o.phase WHEN 'completed' THEN 'completed'
        WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END)
BEGIN SELECT RAISE(ABORT, 'an action ends with its outcome'); END;
