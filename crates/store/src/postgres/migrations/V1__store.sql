-- Several coordinators, one database. What is live is narrow and changes; what has ended is written once, and the database
-- itself refuses to change it. Instants are milliseconds since 1970.
--
-- Every table of tasks carries its scope, and a transaction sees only the scopes it has named (`tenure.scopes`), because it
-- works as a role that does not own the tables.

CREATE TABLE tenure.meta (
    one        integer PRIMARY KEY CHECK (one = 1),
    store_id   bytea   NOT NULL CHECK (length(store_id) = 16),
    epoch      integer NOT NULL CHECK (epoch >= 1),
    -- Which server the store is on, whether its commits wait for a standby, and for which server the epoch was raised,
    -- because it may not have had all that was acknowledged.
    server     text,
    waits      boolean NOT NULL DEFAULT false,
    raised_for text,
    -- Which version of the rules decides: a batch that was decided by another one does not commit. It never goes back.
    rules      integer NOT NULL DEFAULT 1 CHECK (rules >= 1),
    -- Grows with every change of `paused_queues`. A batch that was decided before the last change does not commit.
    pauses     bigint  NOT NULL DEFAULT 0
);

-- Who works on this store. One row per writer of a coordinator, kept after its end.
CREATE TABLE tenure.committers (
    committer    bytea   PRIMARY KEY CHECK (length(committer) = 16),
    name         text    NOT NULL,
    version      text    NOT NULL,
    -- It can decide by every version of the rules from `oldest_rules` to `rules`.
    oldest_rules integer NOT NULL,
    rules        integer NOT NULL CHECK (rules >= oldest_rules),
    started_at   bigint  NOT NULL,
    seen_at      bigint  NOT NULL,
    stopped_at   bigint
);

-- One row per committed batch, so that a COMMIT whose answer was lost can be looked up, and the time of the last commit is
-- known without a row that all committers would wait for.
CREATE TABLE tenure.batches (
    committer bytea  NOT NULL,
    n         bigint NOT NULL CHECK (n >= 1),
    at        bigint NOT NULL,
    PRIMARY KEY (committer, n)
);

-- The signing keys that all coordinators share, sealed with a key that is in no database.
CREATE TABLE tenure.ring (
    one     integer PRIMARY KEY CHECK (one = 1),
    version bigint  NOT NULL CHECK (version >= 1),
    sealed  bytea   NOT NULL
);

-- Tasks.

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
    tale        bytea,
    -- A task with a parent belongs to the run of `root`. A root has neither.
    root        bytea   CHECK (length(root) = 16),
    parent      bytea   CHECK (length(parent) = 16)
);
CREATE INDEX inputs_by_scope ON tenure.inputs (tenant, workspace, id);
CREATE INDEX inputs_by_root ON tenure.inputs (root) WHERE root IS NOT NULL;
-- Lists show roots, and must not walk over the thousands of children that one of them may have.
CREATE INDEX inputs_roots ON tenure.inputs (tenant, workspace, id) WHERE parent IS NULL;

-- The only table of tasks that is updated. Room on each page and no index on what a renewal changes keep a renewal inside
-- its page: `alarm_at` is indexed instead of `wakes_at`, is never later than it, and moves only when it has come too early.
CREATE TABLE tenure.live (
    id              bytea   PRIMARY KEY,
    tenant          text    NOT NULL,
    workspace       text    NOT NULL,
    -- Where the task is offered: the queue, or `queue@build` for a run that is pinned to a build.
    queue           text    NOT NULL,
    kind            text    NOT NULL,
    -- Priority, larger first, then age, as bytes that sort.
    place           bytea   NOT NULL CHECK (length(place) = 20),
    priority        integer NOT NULL,
    state           text    NOT NULL CHECK (state IN ('queued', 'retry', 'running', 'waiting', 'blocked')),
    revision        integer NOT NULL CHECK (revision >= 1),
    -- From when the task may be leased; NULL for every task that cannot be, whatever its state.
    claimable_at    bigint,
    -- Whether it was not yet due when it was written.
    delayed         boolean NOT NULL,
    wakes_at        bigint,
    alarm_at        bigint,
    lease_ms        bigint  NOT NULL,
    started_at      bigint,
    attempt         integer NOT NULL,
    failures        integer NOT NULL,
    lost            integer NOT NULL,
    undelivered     integer NOT NULL,
    claim_version   integer NOT NULL,
    decided_at      bigint  NOT NULL,
    entries         integer NOT NULL,
    chain           bytea   NOT NULL CHECK (length(chain) = 32),
    cancel          text,
    lease           bytea,
    owner           text,
    poll            text,
    fence           bigint,
    acquired_at     bigint,
    heartbeat_at    bigint,
    expires_at      bigint,
    attempt_at      bigint,
    heard           boolean,
    progress        text,
    -- The next entries of the history, as long as they are short. What is longer goes on in `history`.
    tale            bytea,
    parent          bytea,
    -- What a durable run keeps, and what it waits for. A plain task has NULL in both.
    run             text,
    waiting         text,
    -- Progress clocks: when the attempt last made progress, and when it was found stalled. NULL without such a clock.
    progressed_at   bigint,
    stalled_at      bigint,
    -- The deadline of a stage or of a step; NULL for every other task.
    deadline        bigint,
    -- The flow key with its limit; NULL without one. Which tasks hold a slot follows from the leases. A task that does not fit
    -- is parked: it is marked as delayed too, and so leaves the index of ready tasks.
    flow_key        text    COLLATE "C",
    flow_limit      integer,
    parked          boolean NOT NULL DEFAULT false,
    -- The rate of the key as one number: the larger one counts where two meet.
    flow_rate       bigint,
    -- Until when a newer task with the key may replace this one, as it was submitted.
    debounced_until bigint,
    -- True for a task that holds its slot from its first lease to its end; NULL for one that holds it while it is leased.
    flow_life       boolean,
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (fence IS NOT NULL)),
    CHECK ((state = 'running') = (expires_at IS NOT NULL)),
    CHECK (NOT delayed OR claimable_at IS NOT NULL),
    CHECK ((alarm_at IS NULL) = (wakes_at IS NULL)),
    CHECK (alarm_at <= wakes_at),
    CONSTRAINT live_running_is_not_claimable CHECK (state <> 'running' OR claimable_at IS NULL),
    CONSTRAINT live_waiting_is_claimable CHECK (state NOT IN ('queued', 'retry') OR claimable_at IS NOT NULL),
    CONSTRAINT live_waiting_check CHECK ((state IN ('waiting', 'blocked')) = (waiting IS NOT NULL)),
    CONSTRAINT live_flow_check CHECK ((flow_key IS NULL) = (flow_limit IS NULL)),
    CONSTRAINT live_parked_check CHECK (NOT parked OR (delayed AND flow_key IS NOT NULL)),
    CONSTRAINT live_flow_rate_check CHECK (flow_rate IS NULL OR flow_key IS NOT NULL),
    CONSTRAINT live_debounced_check CHECK (debounced_until IS NULL OR flow_key IS NOT NULL),
    CONSTRAINT live_flow_life_check CHECK (flow_life IS NULL OR flow_key IS NOT NULL)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_analyze_threshold = 20000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX live_ready ON tenure.live (tenant, workspace, queue, place)
    WHERE claimable_at IS NOT NULL AND NOT delayed;
-- Reads of delayed tasks do not walk over parked ones.
CREATE INDEX live_delayed ON tenure.live (tenant, workspace, queue, claimable_at) WHERE delayed AND NOT parked;
CREATE INDEX live_delayed_due ON tenure.live (claimable_at) WHERE delayed;
CREATE INDEX live_alarms ON tenure.live (alarm_at) WHERE alarm_at IS NOT NULL;
CREATE INDEX live_leases ON tenure.live (lease_ms) WHERE state = 'running';
CREATE INDEX live_polls ON tenure.live (poll, owner) WHERE poll IS NOT NULL;
-- For the count of unfinished runs: tasks that neither run nor can be claimed, and tasks that are no runs of their own.
CREATE INDEX live_held ON tenure.live (tenant) WHERE claimable_at IS NULL AND state <> 'running';
CREATE INDEX live_children ON tenure.live (tenant) WHERE parent IS NOT NULL;
-- A plain task is in none of these.
CREATE INDEX live_flow_limits ON tenure.live (tenant, workspace, flow_key, flow_limit) WHERE flow_key IS NOT NULL;
CREATE INDEX live_flow_held ON tenure.live (tenant, workspace, flow_key)
    WHERE flow_key IS NOT NULL AND (lease IS NOT NULL OR (flow_life AND attempt > 0));
CREATE INDEX live_flow_offered ON tenure.live (tenant, workspace, flow_key, queue, kind)
    WHERE flow_key IS NOT NULL AND claimable_at IS NOT NULL AND NOT delayed;
CREATE INDEX live_flow_parked ON tenure.live (tenant, workspace, flow_key, queue, kind, place) WHERE parked;
CREATE INDEX live_flow_rates ON tenure.live (tenant, workspace, flow_key, flow_rate DESC) WHERE flow_rate IS NOT NULL;
-- At most one task of a key still waits for a newer one; the others in it are ready or leased, and will leave.
CREATE INDEX live_debounced ON tenure.live (tenant, workspace, flow_key, debounced_until)
    WHERE debounced_until IS NOT NULL;

CREATE TABLE tenure.done (
    id            bytea   PRIMARY KEY,
    tenant        text    NOT NULL,
    workspace     text    NOT NULL,
    state         text    NOT NULL CHECK (state IN ('succeeded', 'failed', 'halted', 'cancelled', 'skipped')),
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
    tale          bytea,
    run           text
);
-- Finds what ended since a time, for the sealer. Ended tasks are appended nearly in this order, so the index is a few
-- pages and costs an ending nothing.
CREATE INDEX done_by_end ON tenure.done USING brin (completed_at) WITH (pages_per_range = 32);

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

-- Durable runs: tasks that record checkpoints, wait, take signals and have children. A plain task has no row here.

-- Keys sort by their bytes, as in the rules.
CREATE TABLE tenure.checkpoints (
    task      bytea   NOT NULL,
    number    integer NOT NULL CHECK (number >= 1),
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    key       text    COLLATE "C" NOT NULL,
    digest    bytea   NOT NULL CHECK (length(digest) = 32),
    attempt   integer NOT NULL,
    at        bigint  NOT NULL,
    recorded  text    NOT NULL,
    result    text,
    PRIMARY KEY (task, number),
    UNIQUE (task, key)
);

-- A started child has a number in the order of checkpoints.
CREATE TABLE tenure.children (
    task      bytea   NOT NULL,
    key       text    COLLATE "C" NOT NULL,
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    number    integer NOT NULL CHECK (number >= 1),
    child     bytea   NOT NULL CHECK (length(child) = 16),
    digest    bytea   NOT NULL CHECK (length(digest) = 32),
    detached  boolean NOT NULL,
    at        bigint  NOT NULL,
    ended     text,
    PRIMARY KEY (task, key),
    UNIQUE (task, number)
);
-- A closing task visits those that live, in the order of their keys.
CREATE INDEX children_that_live ON tenure.children (task, key) WHERE ended IS NULL AND NOT detached;

CREATE TABLE tenure.signals (
    task      bytea   NOT NULL,
    number    integer NOT NULL CHECK (number >= 1),
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    name      text    NOT NULL,
    key       text    COLLATE "C",
    payload   text,
    digest    bytea   NOT NULL CHECK (length(digest) = 32),
    taken     boolean NOT NULL,
    PRIMARY KEY (task, number)
);
CREATE UNIQUE INDEX signals_by_key ON tenure.signals (task, key) WHERE key IS NOT NULL;
CREATE INDEX signals_pending ON tenure.signals (task, number) WHERE NOT taken;

-- The items of the current wait, if they are many: the row of a task is written at each arrival, this one never.
CREATE TABLE tenure.waits (
    task      bytea NOT NULL PRIMARY KEY,
    tenant    text  NOT NULL,
    workspace text  NOT NULL,
    items     text  NOT NULL
);

-- Messages that could not be decided in the batch of their sender. The addressee of one that spawns is not stored yet.
CREATE TABLE tenure.messages (
    addressee bytea   NOT NULL CHECK (length(addressee) = 16),
    sender    bytea   NOT NULL CHECK (length(sender) = 16),
    entry     integer NOT NULL,
    place     integer NOT NULL,
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    body      text    NOT NULL,
    spec      text,
    due       bigint  NOT NULL,
    parked    text,
    PRIMARY KEY (addressee, sender, entry, place)
) WITH (
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX messages_by_due ON tenure.messages (due, addressee) WHERE parked IS NULL;
-- Finds the tenants that have messages, and the earliest of each, however many another one has.
CREATE INDEX messages_by_tenant ON tenure.messages (tenant, due, addressee) WHERE parked IS NULL;
-- Nearly always empty: whether a parked message blocks a pair is looked up here for each message that is read.
CREATE INDEX messages_parked ON tenure.messages (addressee, sender, entry, place) WHERE parked IS NOT NULL;

-- Plans whose steps are tasks of their own: steps and edges of a root, written once with its submission, and what each step
-- still waits for. A step is `blocked` until its upstreams have ended, and `skipped` if one of them keeps it from running.

-- The steps of a plan, with what their tasks are created with.
CREATE TABLE tenure.steps (
    task      bytea   NOT NULL,
    place     integer NOT NULL CHECK (place >= 0),
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    key       text    COLLATE "C" NOT NULL,
    step      text    NOT NULL,
    upstreams text    NOT NULL,
    spec      text    NOT NULL,
    PRIMARY KEY (task, place),
    UNIQUE (task, key)
);

-- The downstreams of a step are told in the order of their keys.
CREATE TABLE tenure.edges (
    task       bytea NOT NULL,
    upstream   text  COLLATE "C" NOT NULL,
    downstream text  COLLATE "C" NOT NULL,
    tenant     text  NOT NULL,
    workspace  text  NOT NULL,
    PRIMARY KEY (task, upstream, downstream)
);

-- How many upstreams of a step have not ended, and the first one that keeps it from running. The only part of a plan that
-- changes; a step without upstreams has no row.
CREATE TABLE tenure.missing_upstreams (
    task      bytea   NOT NULL,
    key       text    COLLATE "C" NOT NULL,
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    missing   integer NOT NULL CHECK (missing >= 0),
    blame     text,
    PRIMARY KEY (task, key)
) WITH (fillfactor = 70);

-- The grants of tasks whose flow key has a rate, until they are out of its window. They outlive the tasks.
CREATE TABLE tenure.flow_starts (
    tenant    text    NOT NULL COLLATE "C",
    workspace text    NOT NULL COLLATE "C",
    flow_key  text    NOT NULL COLLATE "C",
    at        bigint  NOT NULL,
    task      bytea   NOT NULL CHECK (octet_length(task) = 16),
    entry     integer NOT NULL CHECK (entry > 0),
    until     bigint  NOT NULL CHECK (until > at),
    PRIMARY KEY (tenant, workspace, flow_key, at, task, entry)
);
CREATE INDEX flow_starts_until ON tenure.flow_starts (until);

-- What workers logged, in pieces: of an attempt and of a task so much is kept as the rules say. Lines are appended to the
-- content of the newest piece.
CREATE TABLE tenure.logs (
    task       bytea   NOT NULL CHECK (length(task) = 16),
    attempt    integer NOT NULL CHECK (attempt >= 1),
    first_line bigint  NOT NULL CHECK (first_line >= 1),
    last_line  bigint  NOT NULL CHECK (last_line >= first_line),
    tenant     text    NOT NULL,
    workspace  text    NOT NULL,
    lines      integer NOT NULL CHECK (lines >= 1),
    bytes      integer NOT NULL CHECK (bytes >= 1),
    -- How many lines before the first are not kept.
    dropped    bigint  NOT NULL CHECK (dropped >= 0),
    content    text    NOT NULL,
    PRIMARY KEY (task, attempt, first_line)
);

-- What runs used, by workspace and day. The use of a whole tenant is under the workspace '*'. Each committer adds to the row
-- of its own slot, so that commits do not wait for each other; a sum is over all slots.
CREATE TABLE tenure.spend (
    tenant      text     NOT NULL COLLATE "C",
    workspace   text     NOT NULL COLLATE "C",
    day         integer  NOT NULL CHECK (day >= 0),
    slot        smallint NOT NULL,
    cost_micros bigint   NOT NULL CHECK (cost_micros >= 0),
    tokens      bigint   NOT NULL CHECK (tokens >= 0),
    steps       bigint   NOT NULL CHECK (steps >= 0),
    tool_calls  bigint   NOT NULL CHECK (tool_calls >= 0),
    PRIMARY KEY (tenant, workspace, day, slot)
) WITH (fillfactor = 50);

-- Seals over the records of ended tasks: one chain for each tenant, made with a key that is in no database.
CREATE TABLE tenure.record_seals (
    tenant      text    NOT NULL COLLATE "C",
    n           bigint  NOT NULL CHECK (n >= 1),
    at          bigint  NOT NULL,
    complete_to bigint  NOT NULL,
    first_end   bigint  NOT NULL,
    last_end    bigint  NOT NULL,
    count       bigint  NOT NULL CHECK (count >= 1),
    root        bytea   NOT NULL CHECK (length(root) = 32),
    chain       bytea   NOT NULL CHECK (length(chain) = 32),
    seal        bytea   NOT NULL CHECK (length(seal) = 40),
    -- The sealed records: 16 bytes of a task's id and 32 of a digest each.
    leaves      bytea   NOT NULL,
    PRIMARY KEY (tenant, n)
);

-- Objects: typed, versioned rows for what is rare. Each change is an entry of the log, and the last one is the object.

CREATE TABLE tenure.objects (
    tenant      text    NOT NULL COLLATE "C",
    workspace   text    NOT NULL COLLATE "C",
    object_type text    NOT NULL COLLATE "C",
    id          text    NOT NULL COLLATE "C",
    revision    integer NOT NULL CHECK (revision >= 1),
    status      text    NOT NULL COLLATE "C",
    due         bigint,
    unique_key  text    COLLATE "C",
    parent      text    COLLATE "C",
    pending     boolean NOT NULL,
    body        text    NOT NULL,
    PRIMARY KEY (tenant, workspace, object_type, id)
);
-- With a predicate, so that it is used only where the query implies it, as a list of one status does. In a table without
-- statistics a lookup by key costs the same by estimate through this index, and would read every object of the type.
CREATE INDEX objects_by_status ON tenure.objects (tenant, workspace, object_type, status, id) WHERE status IS NOT NULL;
CREATE INDEX objects_by_due ON tenure.objects (due, id) WHERE due IS NOT NULL;
CREATE INDEX objects_pending ON tenure.objects (tenant, workspace, object_type, id) WHERE pending;
CREATE INDEX objects_by_parent ON tenure.objects (tenant, workspace, parent, object_type, id) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX objects_by_unique_key ON tenure.objects (tenant, workspace, object_type, unique_key)
    WHERE unique_key IS NOT NULL;

CREATE TABLE tenure.object_log (
    tenant      text    NOT NULL COLLATE "C",
    workspace   text    NOT NULL COLLATE "C",
    object_type text    NOT NULL COLLATE "C",
    id          text    NOT NULL COLLATE "C",
    revision    integer NOT NULL CHECK (revision >= 1),
    status      text    NOT NULL,
    due         bigint,
    unique_key  text,
    parent      text    COLLATE "C",
    pending     boolean NOT NULL,
    body        text    NOT NULL,
    at          bigint  NOT NULL,
    by_key      text,
    PRIMARY KEY (tenant, workspace, object_type, id, revision)
);
CREATE INDEX object_log_by_parent ON tenure.object_log (tenant, workspace, parent) WHERE parent IS NOT NULL;

-- Administration.

-- Queues from which nothing is granted: since when, by which administrator's key, and why.
CREATE TABLE tenure.paused_queues (
    tenant    text   NOT NULL,
    workspace text   NOT NULL,
    queue     text   NOT NULL,
    at        bigint NOT NULL,
    by        text   NOT NULL,
    reason    text,
    PRIMARY KEY (tenant, workspace, queue)
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

-- Who changed what.
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
        RAISE EXCEPTION 'a live task cannot be deleted' USING ERRCODE = 'check_violation';
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
        RAISE EXCEPTION 'a task cannot be both live and ended' USING ERRCODE = 'check_violation';
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
        RAISE EXCEPTION 'the idempotency key of a live task cannot be used for another task'
            USING ERRCODE = 'check_violation';
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
CREATE TRIGGER checkpoints_known AFTER INSERT ON tenure.checkpoints
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER children_known AFTER INSERT ON tenure.children
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER signals_known AFTER INSERT ON tenure.signals
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER waits_known AFTER INSERT ON tenure.waits
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER steps_known AFTER INSERT ON tenure.steps
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER edges_known AFTER INSERT ON tenure.edges
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER logs_known AFTER INSERT ON tenure.logs
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER missing_upstreams_known AFTER INSERT ON tenure.missing_upstreams
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER keys_of_live_tasks_stay BEFORE UPDATE ON tenure.keys
    FOR EACH ROW WHEN (OLD.task IS DISTINCT FROM NEW.task) EXECUTE FUNCTION tenure.check_key();

-- Only a task of a durable run passes from one kind or queue to another: with a stage, or because a build is pinned.
CREATE TRIGGER live_keeps_its_name BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN ((NEW.id, NEW.tenant, NEW.workspace, NEW.priority, NEW.place, NEW.parent)
        IS DISTINCT FROM (OLD.id, OLD.tenant, OLD.workspace, OLD.priority, OLD.place, OLD.parent)
        OR (NEW.run IS NULL AND (NEW.queue, NEW.kind) IS DISTINCT FROM (OLD.queue, OLD.kind)))
    EXECUTE FUNCTION tenure.refuse('the id, scope, queue, kind, priority and parent of a task never change');
-- Several decisions of one task may be written as one change, when a store is copied: a further attempt says that the task
-- was running in between.
CREATE TRIGGER live_changes_by_the_rules BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND NOT (NEW.state = 'running'
        OR (NEW.state IN ('retry', 'waiting') AND (OLD.state = 'running' OR NEW.attempt > OLD.attempt))
        OR (NEW.state = 'waiting' AND OLD.state = 'retry')
        OR (NEW.state IN ('queued', 'waiting') AND NEW.run IS NOT NULL)))
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
    EXECUTE FUNCTION tenure.refuse('history is append-only');
CREATE TRIGGER rules_never_go_back BEFORE UPDATE ON tenure.meta FOR EACH ROW
    WHEN (NEW.rules < OLD.rules)
    EXECUTE FUNCTION tenure.refuse('the rules in force never go back');

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
CREATE TRIGGER checkpoints_stay BEFORE UPDATE OR TRUNCATE ON tenure.checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('checkpoints are written once');
CREATE TRIGGER checkpoints_leave BEFORE DELETE ON tenure.checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('checkpoints are written once');
CREATE TRIGGER children_end_once BEFORE UPDATE ON tenure.children FOR EACH ROW
    WHEN (OLD.ended IS NOT NULL OR NEW.ended IS NULL
        OR (NEW.task, NEW.key, NEW.tenant, NEW.workspace, NEW.number, NEW.child, NEW.digest, NEW.detached, NEW.at)
            IS DISTINCT FROM (OLD.task, OLD.key, OLD.tenant, OLD.workspace, OLD.number, OLD.child, OLD.digest,
                OLD.detached, OLD.at))
    EXECUTE FUNCTION tenure.refuse('a child is recorded once and ends once');
CREATE TRIGGER children_stay BEFORE TRUNCATE ON tenure.children
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('a child is recorded once and ends once');
CREATE TRIGGER children_leave BEFORE DELETE ON tenure.children
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('a child is recorded once and ends once');
CREATE TRIGGER signals_taken_once BEFORE UPDATE ON tenure.signals FOR EACH ROW
    WHEN (OLD.taken OR NOT NEW.taken
        OR (NEW.task, NEW.number, NEW.tenant, NEW.workspace, NEW.name, NEW.key, NEW.payload, NEW.digest)
            IS DISTINCT FROM (OLD.task, OLD.number, OLD.tenant, OLD.workspace, OLD.name, OLD.key, OLD.payload,
                OLD.digest))
    EXECUTE FUNCTION tenure.refuse('a signal is recorded once and taken once');
CREATE TRIGGER signals_stay BEFORE TRUNCATE ON tenure.signals
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('a signal is recorded once and taken once');
CREATE TRIGGER signals_leave BEFORE DELETE ON tenure.signals
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('a signal is recorded once and taken once');
CREATE TRIGGER messages_keep_their_content BEFORE UPDATE ON tenure.messages FOR EACH ROW
    WHEN (OLD.parked IS NOT NULL
        OR (NEW.addressee, NEW.sender, NEW.entry, NEW.place, NEW.tenant, NEW.workspace, NEW.body, NEW.spec)
            IS DISTINCT FROM (OLD.addressee, OLD.sender, OLD.entry, OLD.place, OLD.tenant, OLD.workspace, OLD.body,
                OLD.spec))
    EXECUTE FUNCTION tenure.refuse('a saved message never changes');
CREATE TRIGGER steps_stay BEFORE UPDATE OR TRUNCATE ON tenure.steps
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('the steps of a plan are written once');
CREATE TRIGGER steps_leave BEFORE DELETE ON tenure.steps
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('the steps of a plan are written once');
CREATE TRIGGER edges_stay BEFORE UPDATE OR TRUNCATE ON tenure.edges
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('the edges of a plan are written once');
CREATE TRIGGER edges_leave BEFORE DELETE ON tenure.edges
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('the edges of a plan are written once');
CREATE TRIGGER missing_upstreams_keep_their_step BEFORE UPDATE ON tenure.missing_upstreams FOR EACH ROW
    WHEN ((NEW.task, NEW.key, NEW.tenant, NEW.workspace)
        IS DISTINCT FROM (OLD.task, OLD.key, OLD.tenant, OLD.workspace))
    EXECUTE FUNCTION tenure.refuse('what a step waits for belongs to the step');
CREATE TRIGGER missing_upstreams_stay BEFORE TRUNCATE ON tenure.missing_upstreams
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('what a step waits for belongs to the step');
CREATE TRIGGER missing_upstreams_leave BEFORE DELETE ON tenure.missing_upstreams
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('what a step waits for belongs to the step');
CREATE TRIGGER spend_only_grows BEFORE UPDATE ON tenure.spend FOR EACH ROW
    WHEN (NEW.cost_micros < OLD.cost_micros OR NEW.tokens < OLD.tokens OR NEW.steps < OLD.steps OR NEW.tool_calls < OLD.tool_calls
        OR (NEW.tenant, NEW.workspace, NEW.day, NEW.slot) IS DISTINCT FROM (OLD.tenant, OLD.workspace, OLD.day, OLD.slot))
    EXECUTE FUNCTION tenure.refuse('what was used stays used');
CREATE TRIGGER spend_stays BEFORE DELETE OR TRUNCATE ON tenure.spend
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('what was used stays used');
CREATE TRIGGER record_seals_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON tenure.record_seals
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('seals are written once');
CREATE TRIGGER objects_grow_by_one BEFORE UPDATE ON tenure.objects FOR EACH ROW
    WHEN (NEW.revision <> OLD.revision + 1
        OR (NEW.tenant, NEW.workspace, NEW.object_type, NEW.id, NEW.parent)
            IS DISTINCT FROM (OLD.tenant, OLD.workspace, OLD.object_type, OLD.id, OLD.parent))
    EXECUTE FUNCTION tenure.refuse('an object changes by one revision at a time and keeps its key and parent');
CREATE TRIGGER objects_stay BEFORE TRUNCATE ON tenure.objects
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('an object leaves only with its run');
CREATE TRIGGER objects_leave BEFORE DELETE ON tenure.objects
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('an object leaves only with its run');
CREATE TRIGGER object_log_stays BEFORE UPDATE OR TRUNCATE ON tenure.object_log
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('the log of objects is written once');
CREATE TRIGGER object_log_leaves BEFORE DELETE ON tenure.object_log
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('the log of objects is written once');
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
ALTER TABLE tenure.checkpoints ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.checkpoints USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.children ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.children USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.signals ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.signals USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.waits ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.waits USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.messages ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.messages USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.steps USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.edges ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.edges USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.missing_upstreams ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.missing_upstreams USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.flow_starts ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.flow_starts USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.logs ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.logs USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.spend ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.spend USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.objects ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.objects USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.object_log ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.object_log USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.paused_queues ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.paused_queues USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.api_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.api_keys USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.audit ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.audit USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
-- Only the sealer and its checks read them, and both see all scopes.
ALTER TABLE tenure.record_seals ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.record_seals USING ('*' = ANY ((SELECT tenure.scopes())::text[]));

GRANT USAGE ON SCHEMA tenure TO tenure_rows;
GRANT SELECT, UPDATE (epoch, server, waits, raised_for, rules, pauses) ON tenure.meta TO tenure_rows;
GRANT SELECT, INSERT, UPDATE ON tenure.committers, tenure.ring TO tenure_rows;
GRANT SELECT, INSERT, DELETE ON tenure.batches TO tenure_rows;
GRANT SELECT, INSERT, DELETE ON tenure.inputs, tenure.done, tenure.attempts, tenure.history, tenure.refused,
    tenure.checkpoints, tenure.steps, tenure.edges, tenure.object_log TO tenure_rows;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.live, tenure.keys, tenure.paused_queues TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (ended) ON tenure.children TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (taken) ON tenure.signals TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (items) ON tenure.waits TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (due, parked) ON tenure.messages TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (last_line, lines, bytes, dropped, content) ON tenure.logs TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (missing, blame) ON tenure.missing_upstreams TO tenure_rows;
-- Updating is needed to lock what is deleted.
GRANT SELECT, INSERT, UPDATE (until), DELETE ON tenure.flow_starts TO tenure_rows;
GRANT SELECT, INSERT, UPDATE (cost_micros, tokens, steps, tool_calls) ON tenure.spend TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (revision, status, due, unique_key, pending, body) ON tenure.objects TO tenure_rows;
GRANT SELECT, INSERT ON tenure.record_seals, tenure.audit TO tenure_rows;
GRANT SELECT, INSERT, UPDATE ON tenure.api_keys, tenure.tenant_limits TO tenure_rows;
