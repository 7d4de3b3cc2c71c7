-- Several coordinators, one database. What lives is narrow and changes; what has ended is written
-- once, and the database itself refuses to change it. Instants are milliseconds since 1970.
--
-- Every table of tasks carries its scope, and a transaction sees only the scopes it has named
-- (`tenure.scopes`), because it works as a role that does not own the tables.

CREATE TABLE tenure.meta (
    one      integer PRIMARY KEY CHECK (one = 1),
    store_id bytea   NOT NULL CHECK (length(store_id) = 16),
    epoch    integer NOT NULL CHECK (epoch >= 1)
);

-- Who works on this store. One row per writer of a coordinator, kept after its end.
CREATE TABLE tenure.committers (
    committer  bytea  PRIMARY KEY CHECK (length(committer) = 16),
    name       text   NOT NULL,
    version    text   NOT NULL,
    rules      integer NOT NULL,
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL,
    stopped_at bigint
);

-- One row per committed batch, so that a COMMIT whose answer was lost can be looked up, and the time
-- of the last commit is known without a row that everybody waits for.
CREATE TABLE tenure.batches (
    committer bytea  NOT NULL,
    n         bigint NOT NULL CHECK (n >= 1),
    at        bigint NOT NULL,
    PRIMARY KEY (committer, n)
);

CREATE TABLE tenure.inputs (
    id          bytea   PRIMARY KEY CHECK (length(id) = 16),
    tenant      text    NOT NULL,
    workspace   text    NOT NULL,
    queue       text    NOT NULL,
    kind        text    NOT NULL,
    priority    integer NOT NULL,
    created_at  bigint  NOT NULL,
    -- The policy, packed; NULL when the task ended in the commit that created it: then only its history knows.
    terms       bytea,
    fingerprint bytea   NOT NULL CHECK (length(fingerprint) = 32),
    key         text,
    goal        text,
    task_key    text,
    asset_id    text,
    resources   text,
    labels      text,
    traceparent text,
    input       text    NOT NULL,
    -- The history begins here, packed: the entry of the submission.
    tale        bytea
);
CREATE INDEX inputs_by_scope ON tenure.inputs (tenant, workspace, id);

-- The only table of tasks that is updated. Room on each page and no index on what a renewal changes
-- keep a renewal inside its page: `alarm_at` is indexed instead of `wakes_at`, is never later than it, and
-- moves only when it has come too early.
CREATE TABLE tenure.live (
    id            bytea   PRIMARY KEY,
    tenant        text    NOT NULL,
    workspace     text    NOT NULL,
    queue         text    NOT NULL,
    kind          text    NOT NULL,
    -- Priority, larger first, then age, as bytes that sort.
    place         bytea   NOT NULL CHECK (length(place) = 20),
    priority      integer NOT NULL,
    state         text    NOT NULL CHECK (state IN ('queued', 'retry', 'running')),
    revision      integer NOT NULL CHECK (revision >= 1),
    due           bigint,
    -- Whether it was not yet due when it was written.
    delayed       boolean NOT NULL,
    wakes_at      bigint,
    alarm_at      bigint,
    lease_ms      bigint  NOT NULL,
    started_at    bigint,
    attempt       integer NOT NULL,
    failures      integer NOT NULL,
    lost          integer NOT NULL,
    undelivered   integer NOT NULL,
    claim_version integer NOT NULL,
    decided_at    bigint  NOT NULL,
    entries       integer NOT NULL,
    chain         bytea   NOT NULL CHECK (length(chain) = 32),
    cancel        text,
    lease         bytea,
    owner         text,
    poll          text,
    fence         bigint,
    acquired_at   bigint,
    heartbeat_at  bigint,
    expires_at    bigint,
    attempt_at    bigint,
    heard         boolean,
    progress      text,
    -- The next entries of the history, as long as they are short. What is longer goes on in `history`.
    tale          bytea,
    CHECK ((state = 'running') = (due IS NULL)),
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (fence IS NOT NULL)),
    CHECK ((state = 'running') = (expires_at IS NOT NULL)),
    CHECK (NOT delayed OR due IS NOT NULL),
    CHECK ((alarm_at IS NULL) = (wakes_at IS NULL)),
    CHECK (alarm_at <= wakes_at)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_analyze_threshold = 20000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX live_ready ON tenure.live (tenant, workspace, queue, place)
    WHERE due IS NOT NULL AND NOT delayed;
CREATE INDEX live_delayed ON tenure.live (tenant, workspace, queue, due) WHERE delayed;
CREATE INDEX live_delayed_due ON tenure.live (due) WHERE delayed;
CREATE INDEX live_alarms ON tenure.live (alarm_at) WHERE alarm_at IS NOT NULL;
CREATE INDEX live_leases ON tenure.live (lease_ms) WHERE lease IS NOT NULL;
CREATE INDEX live_polls ON tenure.live (poll, owner) WHERE poll IS NOT NULL;

CREATE TABLE tenure.done (
    id            bytea   PRIMARY KEY,
    tenant        text    NOT NULL,
    workspace     text    NOT NULL,
    state         text    NOT NULL CHECK (state IN ('succeeded', 'failed', 'halted', 'cancelled')),
    reason        text,
    started_at    bigint,
    completed_at  bigint  NOT NULL,
    attempt       integer NOT NULL,
    failures      integer NOT NULL,
    lost          integer NOT NULL,
    claim_version integer NOT NULL,
    entries       integer NOT NULL,
    record        bytea   NOT NULL CHECK (length(record) = 32),
    cancel        text,
    fault         text,
    output        text,
    -- As it was in `live` at the end.
    tale          bytea
);

CREATE TABLE tenure.attempts (
    task       bytea   NOT NULL,
    attempt    integer NOT NULL CHECK (attempt >= 1),
    tenant     text    NOT NULL,
    workspace  text    NOT NULL,
    lease      bytea   NOT NULL CHECK (length(lease) = 16),
    fence      bigint  NOT NULL,
    owner      text    NOT NULL,
    granted_at bigint  NOT NULL,
    started_at bigint,
    closed_at  bigint  NOT NULL,
    outcome    text    NOT NULL CHECK (outcome IN
        ('SUCCEEDED', 'FAILED', 'CANCELLED', 'LOST', 'UNDELIVERED', 'REVOKED')),
    reason     text,
    report     bytea   CHECK (length(report) = 32),
    fault      text,
    claims     text,
    PRIMARY KEY (task, attempt)
);

CREATE TABLE tenure.history (
    task      bytea   NOT NULL,
    n         integer NOT NULL CHECK (n >= 1),
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    at        bigint  NOT NULL,
    epoch     integer NOT NULL,
    rules     integer NOT NULL,
    request   text    NOT NULL,
    loaded    text,
    events    text    NOT NULL,
    PRIMARY KEY (task, n)
);

-- One row for each way in which calls under one lease were refused, however often they came.
CREATE TABLE tenure.refused (
    task      bytea   NOT NULL,
    lease     bytea   NOT NULL,
    call      text    NOT NULL,
    code      text    NOT NULL,
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    attempt   integer NOT NULL,
    worker    text    NOT NULL,
    stamp     text    NOT NULL CHECK (stamp IN ('committed', 'cancelled', 'rejected')),
    digest    bytea,
    at        bigint  NOT NULL,
    -- Its place among the refusals of one commit.
    ord       bigint  NOT NULL,
    PRIMARY KEY (task, lease, call, code)
);

-- The last use of each idempotency key. The unique index decides races.
CREATE TABLE tenure.keys (
    tenant      text  NOT NULL,
    workspace   text  NOT NULL,
    key         text  NOT NULL,
    task        bytea NOT NULL,
    fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
    PRIMARY KEY (tenant, workspace, key)
);

CREATE TABLE tenure.api_keys (
    id             text   PRIMARY KEY,
    tenant         text   NOT NULL,
    workspace      text   NOT NULL,
    roles          text   NOT NULL,
    digest         bytea  NOT NULL CHECK (length(digest) = 32),
    created_at     bigint NOT NULL,
    name           text,
    -- A list as JSON; NULL means every queue.
    queues         text,
    expires_at     bigint,
    revoked_at     bigint,
    -- The secret before the last rotation, and until when it counts.
    previous       bytea  CHECK (length(previous) = 32),
    previous_until bigint,
    -- Kept roughly: a key in use is written down once in an hour.
    last_used_at   bigint
);

-- NULL means without that limit. A tenant without a row has none.
CREATE TABLE tenure.tenant_limits (
    tenant              text   PRIMARY KEY,
    requests_per_second bigint CHECK (requests_per_second >= 1),
    burst               bigint CHECK (burst >= 1),
    unfinished_runs     bigint CHECK (unfinished_runs >= 0),
    changed_at          bigint NOT NULL
);

CREATE TABLE tenure.audit (
    n         bigint  PRIMARY KEY CHECK (n >= 1),
    at        bigint  NOT NULL,
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    actor     text    NOT NULL,
    action    text    NOT NULL,
    object    text    NOT NULL,
    code      text,
    times     integer NOT NULL CHECK (times >= 1),
    before    bytea   CHECK (length(before) = 32),
    after     bytea   CHECK (length(after) = 32),
    request   text,
    -- The name of the key and its code over this entry and the seal before.
    seal      bytea   CHECK (length(seal) = 40)
);
CREATE INDEX audit_by_tenant ON tenure.audit (tenant, n);

-- The second line of defence. What is refused here, the rules should never have asked for.

CREATE FUNCTION tenure.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'check_violation';
END $$;

-- Ended tasks leave whole, by retention, which says so for one transaction.
CREATE FUNCTION tenure.refuse_unless_forgetting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('tenure.forgetting', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tenure.check_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM rows r WHERE (SELECT l.id FROM tenure.live l WHERE l.id = r.id) IS NOT NULL) THEN
        RAISE EXCEPTION 'a live task is not forgotten' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

-- Statement triggers that look at all new rows at once: each must belong to a submitted task of its scope.
-- They look up one row after the other by its key, in scalar subqueries that no planner turns into a join.
CREATE FUNCTION tenure.check_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM rows r WHERE (SELECT i.id FROM tenure.inputs i
            WHERE i.id = r.id AND i.tenant = r.tenant AND i.workspace = r.workspace) IS NULL) THEN
        RAISE EXCEPTION 'a row of % belongs to no submitted task of its scope', TG_TABLE_NAME
            USING ERRCODE = 'check_violation';
    END IF;
    IF EXISTS (SELECT 1 FROM rows r WHERE (SELECT l.id FROM tenure.live l WHERE l.id = r.id) IS NOT NULL
            AND (SELECT d.id FROM tenure.done d WHERE d.id = r.id) IS NOT NULL) THEN
        RAISE EXCEPTION 'an ended task never lives again' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tenure.check_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM rows r WHERE (SELECT i.id FROM tenure.inputs i
            WHERE i.id = r.task AND i.tenant = r.tenant AND i.workspace = r.workspace) IS NULL) THEN
        RAISE EXCEPTION 'a row of % belongs to no submitted task of its scope', TG_TABLE_NAME
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tenure.check_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM tenure.live l WHERE l.id = OLD.task) THEN
        RAISE EXCEPTION 'a key of a live task is not given away' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER live_known AFTER INSERT ON tenure.live
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_tasks();
CREATE TRIGGER done_known AFTER INSERT ON tenure.done
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_tasks();
CREATE TRIGGER attempts_known AFTER INSERT ON tenure.attempts
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER history_known AFTER INSERT ON tenure.history
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER refused_known AFTER INSERT ON tenure.refused
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER keys_known AFTER INSERT ON tenure.keys
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER keys_of_live_tasks_stay BEFORE UPDATE ON tenure.keys
    FOR EACH ROW WHEN (OLD.task IS DISTINCT FROM NEW.task) EXECUTE FUNCTION tenure.check_key();

CREATE TRIGGER live_keeps_its_name BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN ((NEW.id, NEW.tenant, NEW.workspace, NEW.queue, NEW.kind, NEW.priority, NEW.place)
        IS DISTINCT FROM (OLD.id, OLD.tenant, OLD.workspace, OLD.queue, OLD.kind, OLD.priority, OLD.place))
    EXECUTE FUNCTION tenure.refuse('what names a task never changes');
CREATE TRIGGER live_changes_by_the_rules BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND NOT (NEW.state = 'running' OR (OLD.state = 'running' AND NEW.state = 'retry')))
    EXECUTE FUNCTION tenure.refuse('this change of state is not allowed');
CREATE TRIGGER live_only_grows BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN (NEW.revision < OLD.revision OR NEW.claim_version < OLD.claim_version
        OR NEW.attempt < OLD.attempt OR NEW.entries < OLD.entries OR NEW.decided_at < OLD.decided_at
        OR (NEW.revision = OLD.revision AND (NEW.state, NEW.claim_version, NEW.attempt, NEW.wakes_at)
            IS DISTINCT FROM (OLD.state, OLD.claim_version, OLD.attempt, OLD.wakes_at)))
    EXECUTE FUNCTION tenure.refuse('a task is changed by decisions, each with the next revision');

CREATE TRIGGER live_tale_grows BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN (OLD.tale IS NOT NULL
        AND (NEW.tale IS NULL OR substr(NEW.tale, 1, length(OLD.tale)) <> OLD.tale))
    EXECUTE FUNCTION tenure.refuse('what was told is never told otherwise');

-- Written once: what was submitted, what has ended, and how. It leaves by retention only.
CREATE TRIGGER inputs_stay BEFORE UPDATE OR TRUNCATE ON tenure.inputs
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('inputs are written once');
CREATE TRIGGER inputs_leave BEFORE DELETE ON tenure.inputs
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('inputs are written once');
CREATE TRIGGER done_stay BEFORE UPDATE OR TRUNCATE ON tenure.done
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('an ended task never changes');
CREATE TRIGGER done_leave BEFORE DELETE ON tenure.done
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('an ended task never changes');
CREATE TRIGGER attempts_stay BEFORE UPDATE OR TRUNCATE ON tenure.attempts
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('closed attempts are written once');
CREATE TRIGGER attempts_leave BEFORE DELETE ON tenure.attempts
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('closed attempts are written once');
CREATE TRIGGER history_stay BEFORE UPDATE OR TRUNCATE ON tenure.history
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('history is written once');
CREATE TRIGGER history_leave BEFORE DELETE ON tenure.history
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('history is written once');
CREATE TRIGGER refused_stay BEFORE UPDATE OR TRUNCATE ON tenure.refused
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('refusals are written once');
CREATE TRIGGER refused_leave BEFORE DELETE ON tenure.refused
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('refusals are written once');
CREATE TRIGGER inputs_leave_after_the_end AFTER DELETE ON tenure.inputs
    REFERENCING OLD TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_forgotten();
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON tenure.audit
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('the audit is written once');
CREATE TRIGGER api_keys_stay BEFORE DELETE OR TRUNCATE ON tenure.api_keys
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('a key is revoked, never deleted');
CREATE TRIGGER api_keys_keep_their_scope BEFORE UPDATE ON tenure.api_keys FOR EACH ROW
    WHEN ((NEW.id, NEW.tenant, NEW.workspace) IS DISTINCT FROM (OLD.id, OLD.tenant, OLD.workspace))
    EXECUTE FUNCTION tenure.refuse('a key never changes its scope');
CREATE TRIGGER api_keys_stay_revoked BEFORE UPDATE ON tenure.api_keys FOR EACH ROW
    WHEN (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
    EXECUTE FUNCTION tenure.refuse('a revoked key stays revoked');

-- Scopes. `tenure.scopes` is set for one transaction: a list of scopes, or `*` for what concerns all
-- of them (sweeps, verification). Unset, nothing is seen and nothing can be written.

CREATE FUNCTION tenure.scopes() RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT string_to_array(current_setting('tenure.scopes', true), chr(30))
$$;

-- The list is made once for a statement, and every row is compared with its few members. Inside
-- `coalesce` the planner expects half of the rows to pass. It would else expect hardly any, and read
-- whole tables to join what is left of them.
ALTER TABLE tenure.inputs ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.inputs USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.live ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.live USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.done ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.done USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.attempts ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.attempts USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.history ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.history USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.refused ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.refused USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.keys USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.api_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.api_keys USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.audit ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.audit USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));

GRANT USAGE ON SCHEMA tenure TO tenure_rows;
GRANT SELECT, INSERT ON tenure.audit TO tenure_rows;
GRANT SELECT, INSERT, DELETE ON tenure.inputs, tenure.done, tenure.attempts, tenure.history,
    tenure.refused TO tenure_rows;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.live TO tenure_rows;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.keys TO tenure_rows;
GRANT SELECT, INSERT, UPDATE ON tenure.api_keys, tenure.tenant_limits, tenure.committers TO tenure_rows;
GRANT SELECT, INSERT, DELETE ON tenure.batches TO tenure_rows;
GRANT SELECT, UPDATE (epoch) ON tenure.meta TO tenure_rows;
