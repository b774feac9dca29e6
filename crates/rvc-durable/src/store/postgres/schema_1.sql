-- Which program's tables these are, and which schema they have.
CREATE TABLE schema_version (
    application text PRIMARY KEY CHECK (application = 'rvc-durable'),
    version bigint NOT NULL
);

-- The ledger: a host's runs and actions, authoritative, also for cancellation.
CREATE TABLE runs (
    run_id text COLLATE "C" PRIMARY KEY,
    owner_id text COLLATE "C" NOT NULL,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'cancelled')),
    created_at bigint NOT NULL,
    cancelled_at bigint
);

CREATE TABLE actions (
    action_id text COLLATE "C" PRIMARY KEY,
    run_id text COLLATE "C" NOT NULL REFERENCES runs (run_id),
    state text NOT NULL DEFAULT 'pending'
        CHECK (state IN ('pending', 'completed', 'failed', 'cancelled')),
    finished_at bigint,
    CHECK ((state = 'pending') = (finished_at IS NULL))
);

CREATE INDEX actions_of_a_run ON actions (run_id, action_id);

-- Remote servers. No credentials: the type that writes here refuses them.
CREATE TABLE registrations (
    registration_id text COLLATE "C" PRIMARY KEY,
    owner_id text COLLATE "C" NOT NULL,
    endpoint text NOT NULL CHECK (endpoint NOT LIKE '%@%'),
    transport text NOT NULL CHECK (transport IN ('streamable-http', 'sse')),
    enabled boolean NOT NULL
);

-- JSON is kept as text: jsonb would sort keys, respell numbers and refuse \u0000. Each value is
-- parsed when it is written; a constraint would parse the row's again with every lease.
CREATE DOMAIN json_text AS text CHECK (VALUE IS NULL OR VALUE::json IS NOT NULL);

-- The linkage: what is known of an action's remote task.
CREATE TABLE mcp_action_tasks (
    action_id text COLLATE "C" PRIMARY KEY,
    run_id text COLLATE "C" NOT NULL,
    owner_id text COLLATE "C" NOT NULL,
    registration_id text COLLATE "C" NOT NULL,
    host text NOT NULL CHECK (host IN ('ledger', 'foreign')),
    tool text NOT NULL,
    arguments json_text NOT NULL,
    request_hash text NOT NULL,
    policy text NOT NULL CHECK (policy IN ('at_most_once', 'server_dedup', 'idempotent_tool')),
    surfaces_input boolean NOT NULL,
    execution_deadline_at bigint,
    assumed_ttl_ms bigint CHECK (assumed_ttl_ms >= 0),
    tool_call_id text,
    provider text,
    created_at bigint NOT NULL,

    phase text COLLATE "C" NOT NULL DEFAULT 'intent' CHECK (phase IN (
        'intent', 'sending', 'working', 'input_required', 'accepted',
        'completed', 'failed', 'cancelled', 'expired', 'unknown')),
    starts bigint NOT NULL DEFAULT 0 CHECK (starts >= 0),
    sent_at bigint,
    kind text COLLATE "C" CHECK (kind IN ('mcp', 'contract')),
    remote_task_id text COLLATE "C",
    remote_created_at text COLLATE "C",
    remote_task_status text,
    remote_ended boolean NOT NULL DEFAULT false,
    progress text,
    remote_ttl_ms bigint CHECK (remote_ttl_ms >= 0),
    poll_interval_ms bigint CHECK (poll_interval_ms >= 0),
    polls bigint NOT NULL DEFAULT 0,
    last_polled_at bigint,
    errors bigint NOT NULL DEFAULT 0,
    gone bigint NOT NULL DEFAULT 0,
    malformed bigint NOT NULL DEFAULT 0,
    last_error text,
    input_requests json_text,
    clean_up_open boolean NOT NULL DEFAULT false,
    cancel_asked bigint NOT NULL DEFAULT 0,
    cancel_acknowledged_at bigint,
    looked bigint NOT NULL DEFAULT 0,

    next_due bigint,
    wakes bigint NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until bigint,
    fence bigint NOT NULL DEFAULT 0,
    updated_at bigint NOT NULL,
    -- The last writes that were more than bookkeeping. When the connection broke before the
    -- answer to a commit came, the same write is found here and not done again.
    recent_writes uuid[] NOT NULL DEFAULT '{}',

    CHECK (policy <> 'at_most_once' OR starts <= 1),
    CHECK ((kind IS NULL) = (remote_task_id IS NULL)),
    CHECK ((kind IS NULL) = (remote_created_at IS NULL)),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CHECK (NOT clean_up_open
        OR phase IN ('accepted', 'completed', 'failed', 'cancelled', 'expired', 'unknown')),
    -- Something is due exactly while something is left to do.
    CHECK ((next_due IS NULL) = (NOT clean_up_open
        AND phase IN ('completed', 'failed', 'cancelled', 'expired', 'unknown')))
) WITH (
    -- A lease changes no index: with room in the page it stays there. Each poll leaves a dead
    -- version of its row behind, so the table is cleaned long before a fifth of it is dead.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02
);

-- Contract ids repeat after a restart: the creation tells such tasks apart. Both are chosen by
-- a server and may be longer than an entry of an index, so their hashes are compared, 128 bits
-- of each.
CREATE UNIQUE INDEX one_action_per_remote_task ON mcp_action_tasks (
    registration_id, kind,
    hashtextextended(remote_task_id, 0), hashtextextended(remote_task_id, 1),
    hashtextextended(remote_created_at, 0), hashtextextended(remote_created_at, 1)
) WHERE remote_task_id IS NOT NULL;

CREATE INDEX due_by_registration ON mcp_action_tasks (registration_id, next_due, action_id)
    WHERE next_due IS NOT NULL;

-- For the census.
CREATE INDEX tasks_by_phase ON mcp_action_tasks (phase);
CREATE INDEX open_clean_ups ON mcp_action_tasks (cancel_acknowledged_at) WHERE clean_up_open;

CREATE INDEX tasks_of_a_run ON mcp_action_tasks (run_id);

-- The outcome of an action, inserted once and never touched again.
CREATE TABLE mcp_action_outcomes (
    action_id text COLLATE "C" PRIMARY KEY REFERENCES mcp_action_tasks (action_id),
    phase text COLLATE "C" NOT NULL
        CHECK (phase IN ('completed', 'failed', 'cancelled', 'expired', 'unknown')),
    error_code text,
    message text NOT NULL,
    is_error boolean,
    result json_text,
    finished_at bigint NOT NULL,
    -- Nothing but a result that is no error is a success.
    CHECK (phase <> 'completed'
        OR (result IS NOT NULL AND is_error IS NOT DISTINCT FROM false AND error_code IS NULL)),
    CHECK (phase = 'completed' OR error_code IS NOT NULL)
);

-- The host's answers to requests for input. A key is answered once.
CREATE TABLE mcp_input_answers (
    action_id text COLLATE "C" NOT NULL REFERENCES mcp_action_tasks (action_id),
    input_key text COLLATE "C" NOT NULL,
    answer json_text NOT NULL,
    sent boolean NOT NULL DEFAULT false,
    PRIMARY KEY (action_id, input_key)
);

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation', MESSAGE = TG_ARGV[0];
END $$;

CREATE TRIGGER outcomes_are_never_changed BEFORE UPDATE OR DELETE ON mcp_action_outcomes
    FOR EACH ROW EXECUTE FUNCTION refuse('an outcome is written once');

CREATE TRIGGER outcomes_are_never_emptied BEFORE TRUNCATE ON mcp_action_outcomes
    EXECUTE FUNCTION refuse('an outcome is written once');

CREATE TRIGGER tasks_are_never_deleted BEFORE DELETE ON mcp_action_tasks
    FOR EACH ROW EXECUTE FUNCTION refuse('a linkage is never deleted');

CREATE TRIGGER tasks_are_never_emptied BEFORE TRUNCATE ON mcp_action_tasks
    EXECUTE FUNCTION refuse('a linkage is never deleted');

CREATE TRIGGER the_request_never_changes BEFORE UPDATE OF
    action_id, run_id, owner_id, registration_id, host, tool, arguments, request_hash, policy
    ON mcp_action_tasks
    FOR EACH ROW EXECUTE FUNCTION refuse('what was asked for never changes');

CREATE TRIGGER a_final_phase_is_never_left BEFORE UPDATE OF phase ON mcp_action_tasks
    FOR EACH ROW WHEN (OLD.phase IN ('completed', 'failed', 'cancelled', 'expired', 'unknown')
        AND NEW.phase <> OLD.phase)
    EXECUTE FUNCTION refuse('a final phase is never left');

CREATE FUNCTION phase_and_outcome_agree() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    known text := (SELECT o.phase FROM mcp_action_outcomes AS o WHERE o.action_id = NEW.action_id);
BEGIN
    IF NEW.phase IN ('intent', 'sending', 'working', 'input_required') THEN
        IF known IS NOT NULL THEN
            RAISE EXCEPTION 'an outcome ends the work'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    ELSIF known IS NULL OR (NEW.phase <> 'accepted' AND NEW.phase <> known
        -- A foreign host that cancelled before it was told suppresses the outcome.
        AND NOT (OLD.phase = 'accepted' AND NEW.phase = 'cancelled')
        AND NOT (OLD.phase = 'cancelled' AND NEW.phase = 'cancelled')) THEN
        RAISE EXCEPTION 'the phase needs its outcome'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER a_phase_and_its_outcome_agree BEFORE UPDATE OF phase ON mcp_action_tasks
    FOR EACH ROW EXECUTE FUNCTION phase_and_outcome_agree();

CREATE TRIGGER a_remote_task_is_linked_once BEFORE UPDATE OF
    kind, remote_task_id, remote_created_at ON mcp_action_tasks
    FOR EACH ROW WHEN (OLD.remote_task_id IS NOT NULL
        AND (NEW.remote_task_id IS DISTINCT FROM OLD.remote_task_id
            OR NEW.kind IS DISTINCT FROM OLD.kind
            OR NEW.remote_created_at IS DISTINCT FROM OLD.remote_created_at))
    EXECUTE FUNCTION refuse('a remote task is linked once');

CREATE TRIGGER a_closed_clean_up_stays_closed BEFORE UPDATE OF
    clean_up_open, remote_task_id, remote_task_status, remote_ended, cancel_asked,
    cancel_acknowledged_at, looked ON mcp_action_tasks
    FOR EACH ROW WHEN (NOT OLD.clean_up_open
        AND OLD.phase IN ('completed', 'failed', 'cancelled', 'expired', 'unknown')
        AND (NEW.clean_up_open IS DISTINCT FROM OLD.clean_up_open
            OR NEW.remote_task_id IS DISTINCT FROM OLD.remote_task_id
            OR NEW.remote_task_status IS DISTINCT FROM OLD.remote_task_status
            OR NEW.remote_ended IS DISTINCT FROM OLD.remote_ended
            OR NEW.cancel_asked IS DISTINCT FROM OLD.cancel_asked
            OR NEW.cancel_acknowledged_at IS DISTINCT FROM OLD.cancel_acknowledged_at
            OR NEW.looked IS DISTINCT FROM OLD.looked))
    EXECUTE FUNCTION refuse('a closed clean-up stays closed');

CREATE TRIGGER a_fence_never_falls BEFORE UPDATE OF fence ON mcp_action_tasks
    FOR EACH ROW WHEN (NEW.fence < OLD.fence)
    EXECUTE FUNCTION refuse('a fence never falls');

-- A start is taken back only where it is proven that no byte was sent.
CREATE TRIGGER starts_are_counted BEFORE UPDATE OF starts ON mcp_action_tasks
    FOR EACH ROW WHEN (NEW.starts > OLD.starts + 1
        OR (NEW.starts > OLD.starts AND NEW.phase <> 'sending')
        OR (NEW.starts < OLD.starts AND NOT (
            OLD.phase = 'sending' AND NEW.phase = 'intent' AND NEW.starts = OLD.starts - 1)))
    EXECUTE FUNCTION refuse('starts are counted');

-- From `sending` a start under at_most_once is not begun again.
CREATE TRIGGER an_unknown_start_is_not_repeated BEFORE UPDATE OF phase ON mcp_action_tasks
    FOR EACH ROW WHEN (OLD.policy = 'at_most_once'
        AND OLD.phase = 'sending' AND NEW.phase = 'intent' AND NEW.starts >= OLD.starts)
    EXECUTE FUNCTION refuse('an unknown start is not repeated');

CREATE TRIGGER an_ended_action_never_changes BEFORE UPDATE ON actions
    FOR EACH ROW WHEN (OLD.state <> 'pending')
    EXECUTE FUNCTION refuse('an ended action never changes');

CREATE TRIGGER actions_are_never_deleted BEFORE DELETE ON actions
    FOR EACH ROW EXECUTE FUNCTION refuse('an action is never deleted');

CREATE TRIGGER actions_are_never_emptied BEFORE TRUNCATE ON actions
    EXECUTE FUNCTION refuse('an action is never deleted');

CREATE TRIGGER a_cancelled_run_stays_cancelled BEFORE UPDATE ON runs
    FOR EACH ROW WHEN (OLD.state = 'cancelled' AND NEW.state <> 'cancelled')
    EXECUTE FUNCTION refuse('a cancelled run stays cancelled');

CREATE FUNCTION action_has_its_outcome() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM mcp_action_outcomes AS o WHERE o.action_id = NEW.action_id
        AND NEW.state = CASE o.phase WHEN 'completed' THEN 'completed'
            WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END)
    THEN
        RAISE EXCEPTION 'an action ends with its outcome'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER an_ended_action_has_its_outcome BEFORE UPDATE OF state ON actions
    FOR EACH ROW WHEN (NEW.state <> 'pending')
    EXECUTE FUNCTION action_has_its_outcome();

-- The time that a claim noted last: one that is well before it was set back.
-- `swept` is how far the actions are made due then, by their ids; null when they all are.
CREATE TABLE clock (
    id bigint PRIMARY KEY CHECK (id = 1), noted bigint NOT NULL, swept text COLLATE "C"
);

INSERT INTO clock VALUES (1, 0, NULL);

-- The store's clock in milliseconds; a simulation brings its own.
CREATE FUNCTION store_now(at bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(at, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- What a claim gives: the row, its outcome, and what planning needs besides; the time and the
-- next time something is due in every row. Only its type is used.
CREATE VIEW claimed AS
SELECT t.action_id, t.run_id, t.owner_id, t.registration_id, t.host, t.tool, t.arguments,
    t.policy, t.surfaces_input, t.execution_deadline_at, t.assumed_ttl_ms, t.tool_call_id,
    t.provider, t.created_at, t.phase, t.starts, t.sent_at, t.kind, t.remote_task_id,
    t.remote_created_at, t.remote_task_status, t.remote_ended, t.progress, t.remote_ttl_ms,
    t.poll_interval_ms, t.polls, t.last_polled_at, t.errors, t.gone, t.malformed, t.last_error,
    t.input_requests, t.clean_up_open, t.cancel_asked, t.cancel_acknowledged_at, t.looked,
    t.next_due, o.phase AS outcome_phase, o.error_code, o.message, o.result, o.finished_at,
    t.fence, t.wakes, t.lease_until, run.state AS run_state,
    r.registration_id AS registered, r.owner_id AS registered_owner, r.endpoint, r.transport,
    r.enabled,
    0::bigint AS now_ms, 0::bigint AS upcoming, false AS recovered,
    '{}'::text[] AS answer_keys, '{}'::text[] AS answer_texts
FROM mcp_action_tasks AS t
LEFT JOIN mcp_action_outcomes AS o ON o.action_id = t.action_id
LEFT JOIN runs AS run ON run.run_id = t.run_id
LEFT JOIN registrations AS r ON r.registration_id = t.registration_id;

-- A due row that is locked: where it is, whether an earlier holder never wrote it back, its place
-- in the order of a claim, and under which keys the rest is found.
CREATE TYPE due_row AS (
    place tid, held boolean, round bigint, registration bigint, run_id text, outcome_id text
);

-- Notes the time, every ten seconds. Where the clock was set back by five or more since, no due
-- time of before says when: everything is made due, a part with each claim, and no lease lasts
-- longer than a new one. A step in hand still reckons by the clock of before: it is as if its row
-- were woken. A row that somebody is just writing is passed over, so that nobody is waited for.
CREATE FUNCTION heed_the_clock(now_is bigint, lease_ms bigint) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    last clock;
    part text[];
BEGIN
    SELECT * INTO last FROM clock;
    IF last.noted BETWEEN now_is - 10000 AND now_is + 5000 AND last.swept IS NULL THEN
        RETURN;
    END IF;
    -- One does it, and the others go on.
    SELECT * INTO last FROM clock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF last.noted > now_is + 5000 THEN
        RAISE LOG 'the clock was set back: everything is due';
        last.swept := '';
    END IF;
    IF last.swept IS NOT NULL THEN
        part := ARRAY (
            SELECT t.action_id FROM mcp_action_tasks AS t
            WHERE t.action_id > last.swept AND t.next_due IS NOT NULL
            ORDER BY t.action_id LIMIT 5000 FOR NO KEY UPDATE SKIP LOCKED);
        UPDATE mcp_action_tasks
        SET wakes = wakes + 1, next_due = least(next_due, now_is),
            lease_until = CASE WHEN lease_until > now_is + lease_ms THEN now_is + lease_ms
                ELSE lease_until END
        WHERE action_id = ANY (part) AND (next_due > now_is OR lease_until > now_is);
        last.swept := CASE WHEN cardinality(part) = 5000 THEN part[5000] END;
    END IF;
    UPDATE clock SET noted = now_is, swept = last.swept;
END $$;

-- Leases due rows: fair shares between registrations first; what nobody else wants goes to
-- whoever has more. Gives at least one row, for the time and the next time something is due.
--
-- Rows that another claim is just taking are skipped, so no claim waits for another. What is
-- looked at are index ranges from their beginning, never the rows behind.
CREATE FUNCTION claim_due(
    holder text, at bigint, wanted bigint, per_registration bigint,
    hands text[], in_hands bigint[], served text, lease_ms bigint, horizon_ms bigint, mine text[]
) RETURNS SETOF claimed LANGUAGE plpgsql
    -- The right plan is known, whatever the statistics of a young table say.
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
    SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now_is bigint := store_now(at);
    horizon bigint := now_is + horizon_ms;
    next_is bigint;
    -- By registration: its name, its first due time, how many rows it may have at all and in the
    -- first look, how many it has, and whether there are no more of them up to now, or at all.
    working text[];
    firsts bigint[];
    rooms bigint[] := '{}';
    quotas bigint[] := '{}';
    taken bigint[];
    current boolean[];
    drained boolean[];
    beyond text[];
    waiting bigint;
    rest bigint;
    quota bigint;
    range_from bigint;
    range_to bigint;
    skip tid[];
    more due_row[];
    chosen due_row[];
    is_sorted boolean := true;
    nothing claimed;
BEGIN
    PERFORM heed_the_clock(now_is, least(lease_ms, horizon_ms));

    -- Walks the index from the first entry of one registration to that of the next. Where that
    -- is not due yet, it is the registration's next one.
    WITH RECURSIVE walk (id, due) AS (
        (SELECT t.registration_id, t.next_due FROM mcp_action_tasks AS t
            WHERE t.next_due IS NOT NULL ORDER BY t.registration_id, t.next_due LIMIT 1)
        UNION ALL
        SELECT next.* FROM walk, LATERAL (
            SELECT t.registration_id, t.next_due FROM mcp_action_tasks AS t
            WHERE t.next_due IS NOT NULL AND t.registration_id > walk.id
            ORDER BY t.registration_id, t.next_due LIMIT 1) AS next
    ), line AS (
        -- Those of which the holder has least in hand come first, and of equals those behind
        -- the one that was served last.
        SELECT walk.id, walk.due,
            coalesce(in_hands[array_position(hands, walk.id::text)], 0) AS in_hand,
            coalesce(walk.id <= served, false) AS had_a_turn
        FROM walk
    )
    SELECT coalesce(array_agg(walk.id ORDER BY in_hand, had_a_turn, walk.id), '{}'),
        coalesce(array_agg(walk.due ORDER BY in_hand, had_a_turn, walk.id), '{}'),
        min(CASE WHEN walk.due > now_is THEN walk.due ELSE (
            SELECT t.next_due FROM mcp_action_tasks AS t
            WHERE t.registration_id = walk.id AND t.next_due IS NOT NULL AND t.next_due > now_is
            ORDER BY t.next_due, t.action_id LIMIT 1) END)
    INTO working, firsts, next_is FROM line AS walk;

    -- A first look at all registrations at once, as if each had as much as its share. Where one
    -- has less, the shares of those after it can only grow.
    waiting := cardinality(working);
    rest := wanted;
    FOR place IN 1..cardinality(working) LOOP
        rooms := rooms || greatest(per_registration
            - coalesce(in_hands[array_position(hands, working[place])], 0), 0);
        quotas := quotas || least((rest + waiting - 1) / waiting, rooms[place]);
        rest := rest - quotas[place];
        waiting := waiting - 1;
    END LOOP;
    chosen := ARRAY (
        SELECT ROW (due.place, due.held, 0, walked.nth, due.run_id, due.outcome_id)::due_row
        FROM unnest(working, firsts, quotas) WITH ORDINALITY AS walked (id, due, quota, nth),
        LATERAL (
            SELECT t.ctid AS place, t.lease_owner IS NOT NULL AS held, t.run_id,
                CASE WHEN t.phase NOT IN ('intent', 'sending', 'working', 'input_required')
                    THEN t.action_id END AS outcome_id
            FROM mcp_action_tasks AS t
            WHERE t.registration_id = walked.id AND t.next_due IS NOT NULL
                AND t.next_due <= now_is
                AND (t.lease_until IS NULL OR t.action_id <> ALL (mine)
                    AND (t.lease_until <= now_is OR t.lease_until > horizon))
            ORDER BY t.next_due, t.action_id LIMIT walked.quota
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS due
        WHERE walked.due <= now_is AND walked.quota > 0
    );
    taken := array_fill(0::bigint, ARRAY[cardinality(working)]);
    FOR seen IN 1..cardinality(chosen) LOOP
        taken[chosen[seen].registration] := taken[chosen[seen].registration] + 1;
    END LOOP;
    current := array_fill(false, ARRAY[cardinality(working)]);
    drained := current;
    FOR place IN 1..cardinality(working) LOOP
        current[place] := taken[place] < quotas[place];
    END LOOP;

    FOR round IN 0..1 LOOP
        waiting := cardinality(working);
        FOR place IN 1..cardinality(working) LOOP
            EXIT WHEN wanted = 0;
            IF round = 0 THEN
                quota := least((wanted + waiting - 1) / waiting, rooms[place]) - taken[place];
                wanted := wanted - taken[place];
                waiting := waiting - 1;
            ELSE
                CONTINUE WHEN taken[place] = 0 OR drained[place];
                quota := least(wanted, rooms[place] - taken[place]);
            END IF;
            FOR part IN 0..1 LOOP
                EXIT WHEN quota = 0;
                IF part = 0 THEN
                    CONTINUE WHEN current[place];
                    range_from := -9223372036854775808;
                    range_to := now_is;
                ELSE
                    -- A time further ahead than anything is ever set was written under a clock
                    -- that has been set back since: a second range of the same index.
                    current[place] := true;
                    range_from := horizon + 1;
                    range_to := 9223372036854775807;
                    IF beyond IS NULL THEN
                        beyond := ARRAY (
                            SELECT walked.id FROM unnest(working) AS walked (id)
                            WHERE EXISTS (SELECT FROM mcp_action_tasks AS t
                                WHERE t.registration_id = walked.id AND t.next_due IS NOT NULL
                                    AND t.next_due >= range_from));
                    END IF;
                    CONTINUE WHEN working[place] <> ALL (beyond);
                END IF;
                skip := ARRAY (SELECT had.place FROM unnest(chosen) AS had);
                more := ARRAY (
                    SELECT ROW (t.ctid, t.lease_owner IS NOT NULL, round, place, t.run_id,
                        CASE WHEN t.phase NOT IN ('intent', 'sending', 'working', 'input_required')
                            THEN t.action_id END)::due_row
                    FROM mcp_action_tasks AS t
                    WHERE t.registration_id = working[place] AND t.next_due IS NOT NULL
                        AND t.next_due BETWEEN range_from AND range_to
                        AND (t.lease_until IS NULL OR t.action_id <> ALL (mine)
                            AND (t.lease_until <= now_is OR t.lease_until > horizon))
                        AND t.ctid <> ALL (skip)
                    ORDER BY t.next_due, t.action_id LIMIT quota
                    FOR NO KEY UPDATE SKIP LOCKED
                );
                chosen := chosen || more;
                is_sorted := is_sorted AND cardinality(more) = 0;
                taken[place] := taken[place] + cardinality(more);
                wanted := wanted - cardinality(more);
                quota := quota - cardinality(more);
            END LOOP;
            drained[place] := quota > 0;
        END LOOP;
    END LOOP;

    IF cardinality(chosen) = 0 THEN
        nothing.now_ms := now_is;
        nothing.upcoming := next_is;
        RETURN NEXT nothing;
        RETURN;
    END IF;
    IF NOT is_sorted THEN
        chosen := ARRAY (
            SELECT ROW (due.place, due.held, due.round, due.registration, due.run_id,
                due.outcome_id)::due_row
            FROM unnest(chosen) WITH ORDINALITY
                AS due (place, held, round, registration, run_id, outcome_id, nth)
            ORDER BY due.round, due.registration, due.nth);
    END IF;
    -- In the order of `chosen`, row by row. They are locked since they were found, so they are
    -- where they were.
    RETURN QUERY
    UPDATE mcp_action_tasks AS t
    SET lease_owner = holder, lease_until = now_is + least(lease_ms, horizon_ms),
        fence = t.fence + 1
    FROM unnest(chosen) AS due
    LEFT JOIN mcp_action_outcomes AS o ON o.action_id = due.outcome_id
    LEFT JOIN runs AS run ON run.run_id = due.run_id
    LEFT JOIN registrations AS r ON r.registration_id = working[due.registration]
    WHERE t.ctid = due.place
    RETURNING t.action_id, t.run_id, t.owner_id, t.registration_id, t.host, t.tool, t.arguments,
        t.policy, t.surfaces_input, t.execution_deadline_at, t.assumed_ttl_ms, t.tool_call_id,
        t.provider, t.created_at, t.phase, t.starts, t.sent_at, t.kind, t.remote_task_id,
        t.remote_created_at, t.remote_task_status, t.remote_ended, t.progress, t.remote_ttl_ms,
        t.poll_interval_ms, t.polls, t.last_polled_at, t.errors, t.gone, t.malformed, t.last_error,
        t.input_requests, t.clean_up_open, t.cancel_asked, t.cancel_acknowledged_at, t.looked,
        t.next_due, o.phase, o.error_code, o.message, o.result, o.finished_at,
        t.fence, t.wakes, t.lease_until, run.state,
        r.registration_id, r.owner_id, r.endpoint, r.transport, r.enabled,
        now_is, next_is, due.held,
        CASE WHEN t.input_requests IS NOT NULL THEN (
            SELECT array_agg(a.input_key::text ORDER BY a.input_key) FROM mcp_input_answers AS a
            WHERE a.action_id = t.action_id AND NOT a.sent) END,
        CASE WHEN t.input_requests IS NOT NULL THEN (
            SELECT array_agg(a.answer::text ORDER BY a.input_key) FROM mcp_input_answers AS a
            WHERE a.action_id = t.action_id AND NOT a.sent) END;
END $$;
