-- What is live is narrow and changes; what has ended is written once, and the database itself refuses to change it.
-- Rows are numbered in order of arrival, so that every insert is an append. Instants are milliseconds since 1970.
--
-- Checks name one value after the other: a check against a list builds a table of its values for every row that is written.

CREATE TABLE meta (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    store_id BLOB    NOT NULL CHECK (length(store_id) = 16),
    epoch    INTEGER NOT NULL CHECK (epoch >= 1),
    -- The time of the last commit; NULL before the first.
    clock    INTEGER,
    -- Which version of the rules decides. The opener has the file alone, and brings it to the newest version it knows.
    rules    INTEGER NOT NULL DEFAULT 1 CHECK (rules >= 1)
) STRICT;
INSERT INTO meta (one, store_id, epoch, clock) VALUES (1, randomblob(16), 1, NULL);

CREATE TRIGGER rules_never_go_back BEFORE UPDATE OF rules ON meta WHEN NEW.rules < OLD.rules
BEGIN SELECT RAISE(ABORT, 'the rules in force never go back'); END;

-- Tasks.

-- Where tasks wait: each combination of scope, queue and kind has a number. It goes with the last of its tasks. A run that is
-- pinned to a build waits in the queue `queue@build`, which no list shows.
CREATE TABLE lanes (
    lane      INTEGER PRIMARY KEY,
    tenant    TEXT NOT NULL,
    workspace TEXT NOT NULL,
    queue     TEXT NOT NULL,
    kind      TEXT NOT NULL
) STRICT;
-- A list of one scope visits the lanes of that scope only. A lane is new so rarely that this costs nothing.
CREATE INDEX lanes_by_name ON lanes (tenant, workspace, queue, kind);
CREATE INDEX lanes_of_builds ON lanes (lane) WHERE instr(queue, '@') > 0;

-- Which blocks of 64 rows of `inputs` hold tasks of a lane. A list reads the blocks of its lanes, so it visits at most
-- 63 rows of other lanes for each of its own. An index of `inputs` by lane would cost an entry for every submission, 11 %
-- more bytes for a task's life; this costs an entry for every 64 submissions to a lane that is busy.
CREATE TABLE lane_blocks (
    lane  INTEGER NOT NULL,
    block INTEGER NOT NULL,
    PRIMARY KEY (lane, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE inputs (
    row         INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    lane        INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    -- The policy, packed; NULL when the task ended in the commit that created it: then only its history knows.
    terms       BLOB,
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    key         TEXT,
    goal        TEXT,
    task_key    TEXT,
    asset_id    TEXT,
    resources   TEXT,
    labels      TEXT,
    traceparent TEXT,
    -- The history begins here, packed: the entry of the submission.
    tale        BLOB,
    -- A task with a parent belongs to the run of `root`. A root has neither.
    root        BLOB,
    parent      BLOB,
    -- Last: what stands behind a long text is read through all of its pages.
    input       TEXT    NOT NULL
) STRICT;
-- With the lane, so that it can tell in which queues the thousands of tasks of a run are.
CREATE INDEX inputs_by_root ON inputs (root, lane) WHERE root IS NOT NULL;

-- The only table of tasks that is updated. What is ready, due or expiring is ordered in memory.
CREATE TABLE live (
    row             INTEGER PRIMARY KEY,
    id              BLOB    NOT NULL,
    lane            INTEGER NOT NULL,
    priority        INTEGER NOT NULL,
    state           TEXT    NOT NULL CHECK (state = 'queued' OR state = 'retry' OR state = 'running'
        OR state = 'waiting' OR state = 'blocked'),
    revision        INTEGER NOT NULL CHECK (revision >= 1),
    -- From when the task may be leased; NULL for every task that cannot be, whatever its state.
    claimable_at    INTEGER,
    wakes_at        INTEGER,
    lease_ms        INTEGER NOT NULL,
    started_at      INTEGER,
    attempt         INTEGER NOT NULL,
    failures        INTEGER NOT NULL,
    lost            INTEGER NOT NULL,
    undelivered     INTEGER NOT NULL,
    claim_version   INTEGER NOT NULL,
    decided_at      INTEGER NOT NULL,
    entries         INTEGER NOT NULL,
    chain           BLOB    NOT NULL CHECK (length(chain) = 32),
    cancel          TEXT,
    lease           BLOB,
    owner           TEXT,
    poll            TEXT,
    fence           INTEGER,
    acquired_at     INTEGER,
    heartbeat_at    INTEGER,
    expires_at      INTEGER,
    attempt_at      INTEGER,
    heard           INTEGER,
    progress        TEXT,
    -- What a durable run keeps, and what it waits for. A plain task has NULL in both.
    run             TEXT,
    waiting         TEXT,
    -- The next entries of the history, as long as they are short. What is longer goes on in `history`.
    tale            BLOB,
    -- Progress clocks: when the attempt last made progress, and when it was found stalled. NULL without such a clock.
    progressed_at   INTEGER,
    stalled_at      INTEGER,
    -- The deadline of a stage or of a step; NULL for every other task.
    deadline        INTEGER,
    -- The flow key with its limit; NULL without one. Which tasks hold a slot follows from the leases.
    flow_key        TEXT,
    flow_limit      INTEGER,
    -- The rate of the key as one number: the larger one counts where two meet.
    flow_rate       INTEGER,
    -- Until when a newer task with the key may replace this one, as it was submitted.
    debounced_until INTEGER,
    -- 1 for a task that holds its slot from its first lease to its end; NULL for one that holds it while it is leased.
    flow_life       INTEGER,
    CHECK (state <> 'running' OR claimable_at IS NULL),
    CHECK ((state <> 'queued' AND state <> 'retry') OR claimable_at IS NOT NULL),
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (fence IS NOT NULL)),
    CHECK ((state = 'running') = (expires_at IS NOT NULL)),
    CHECK ((state = 'waiting' OR state = 'blocked') = (waiting IS NOT NULL))
) STRICT;
-- For lists of keys. The writer keeps its own order in memory.
CREATE INDEX live_by_flow_key ON live (flow_key) WHERE flow_key IS NOT NULL;
-- At most one task of a key still waits for a newer one; the others in it are ready or leased, and will leave.
CREATE INDEX live_debounced ON live (flow_key, debounced_until) WHERE debounced_until IS NOT NULL;

CREATE TABLE done (
    row           INTEGER PRIMARY KEY,
    state         TEXT    NOT NULL CHECK (state = 'succeeded' OR state = 'failed' OR state = 'halted'
        OR state = 'cancelled' OR state = 'skipped'),
    reason        TEXT,
    started_at    INTEGER,
    completed_at  INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    lost          INTEGER NOT NULL,
    claim_version INTEGER NOT NULL,
    entries       INTEGER NOT NULL,
    record        BLOB    NOT NULL CHECK (length(record) = 32),
    cancel        TEXT,
    fault         TEXT,
    output        TEXT,
    -- As it was in `live` at the end.
    tale          BLOB,
    run           TEXT
) STRICT;

CREATE TABLE attempts (
    task       INTEGER NOT NULL,
    attempt    INTEGER NOT NULL CHECK (attempt >= 1),
    lease      BLOB    NOT NULL CHECK (length(lease) = 16),
    fence      INTEGER NOT NULL,
    owner      TEXT    NOT NULL,
    granted_at INTEGER NOT NULL,
    started_at INTEGER,
    closed_at  INTEGER NOT NULL,
    outcome    TEXT    NOT NULL CHECK
        (outcome = 'SUCCEEDED' OR outcome = 'FAILED' OR outcome = 'CANCELLED' OR outcome = 'LOST'
            OR outcome = 'UNDELIVERED' OR outcome = 'REVOKED'),
    reason     TEXT,
    report     BLOB    CHECK (report IS NULL OR length(report) = 32),
    fault      TEXT,
    claims     TEXT,
    PRIMARY KEY (task, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE history (
    task    INTEGER NOT NULL,
    n       INTEGER NOT NULL CHECK (n >= 1),
    at      INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    rules   INTEGER NOT NULL,
    request TEXT    NOT NULL,
    loaded  TEXT,
    events  TEXT    NOT NULL,
    PRIMARY KEY (task, n)
) STRICT, WITHOUT ROWID;

-- One row for each way in which calls under one lease were refused, however often they came.
CREATE TABLE refused (
    n       INTEGER PRIMARY KEY,
    task    INTEGER NOT NULL,
    lease   BLOB    NOT NULL,
    call    TEXT    NOT NULL,
    code    TEXT    NOT NULL,
    attempt INTEGER NOT NULL,
    worker  TEXT    NOT NULL,
    stamp   TEXT    NOT NULL CHECK (stamp = 'committed' OR stamp = 'cancelled' OR stamp = 'rejected'),
    digest  BLOB,
    at      INTEGER NOT NULL,
    UNIQUE (task, lease, call, code)
) STRICT;

-- Idempotency keys by their hash, in order of use, so that inserts append and the oldest hour is always at the front. The
-- key itself is in `inputs`.
CREATE TABLE keys (
    n    INTEGER PRIMARY KEY,
    hour INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    task INTEGER NOT NULL
) STRICT;

-- What ended is deleted only as a whole, by retention, and the database itself says what that is: a row may go while it
-- stands in `leaving`, and only what ended at least a day before may stand there. The table is empty in between.
CREATE TABLE leaving (
    row INTEGER PRIMARY KEY,
    -- The store's time.
    at  INTEGER NOT NULL
) STRICT;

-- Durable runs: tasks that record checkpoints, wait, take signals and have children. A plain task has no row here.

CREATE TABLE checkpoints (
    task     INTEGER NOT NULL,
    number   INTEGER NOT NULL CHECK (number >= 1),
    key      TEXT    NOT NULL,
    digest   BLOB    NOT NULL CHECK (length(digest) = 32),
    attempt  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    recorded TEXT    NOT NULL,
    result   TEXT,
    PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX checkpoints_by_key ON checkpoints (task, key);

-- A started child has a number in the order of checkpoints.
CREATE TABLE children (
    task     INTEGER NOT NULL,
    number   INTEGER NOT NULL CHECK (number >= 1),
    key      TEXT    NOT NULL,
    child    BLOB    NOT NULL CHECK (length(child) = 16),
    digest   BLOB    NOT NULL CHECK (length(digest) = 32),
    detached INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    ended    TEXT,
    PRIMARY KEY (task, key)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX children_by_number ON children (task, number);
-- A closing task visits those that live, in the order of their keys.
CREATE INDEX children_that_live ON children (task, key) WHERE ended IS NULL AND detached = 0;

CREATE TABLE signals (
    task    INTEGER NOT NULL,
    number  INTEGER NOT NULL CHECK (number >= 1),
    name    TEXT    NOT NULL,
    key     TEXT,
    payload TEXT,
    digest  BLOB    NOT NULL CHECK (length(digest) = 32),
    taken   INTEGER NOT NULL,
    PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX signals_by_key ON signals (task, key) WHERE key IS NOT NULL;
CREATE INDEX signals_pending ON signals (task, number) WHERE taken = 0;

-- The items of the current wait, if they are many: the row of a task is written at each arrival, this one never.
CREATE TABLE waits (
    task  INTEGER PRIMARY KEY,
    items TEXT NOT NULL
) STRICT;

-- Messages that could not be decided in the batch of their sender. The addressee of one that spawns is not stored yet.
CREATE TABLE messages (
    addressee BLOB    NOT NULL CHECK (length(addressee) = 16),
    sender    BLOB    NOT NULL CHECK (length(sender) = 16),
    entry     INTEGER NOT NULL,
    place     INTEGER NOT NULL,
    tenant    TEXT    NOT NULL,
    workspace TEXT    NOT NULL,
    body      TEXT    NOT NULL,
    spec      TEXT,
    due       INTEGER NOT NULL,
    parked    TEXT,
    PRIMARY KEY (addressee, sender, entry, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_by_due ON messages (due, addressee) WHERE parked IS NULL;
-- Finds the tenants that have messages, and the earliest of each, however many another one has.
CREATE INDEX messages_by_tenant ON messages (tenant, due, addressee) WHERE parked IS NULL;
-- Nearly always empty: whether a parked message blocks a pair is looked up here for each message that is read.
CREATE INDEX messages_parked ON messages (addressee, sender, entry, place) WHERE parked IS NOT NULL;

-- Plans whose steps are tasks of their own: steps and edges of a root, written once with its submission, and what each step
-- still waits for. A step is `blocked` until its upstreams have ended, and `skipped` if one of them keeps it from running.

-- The steps of a plan, with what their tasks are created with.
CREATE TABLE steps (
    task      INTEGER NOT NULL,
    place     INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    step      TEXT    NOT NULL,
    upstreams TEXT    NOT NULL,
    spec      TEXT    NOT NULL,
    PRIMARY KEY (task, place)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX steps_by_key ON steps (task, key);

-- The downstreams of a step are told in the order of their keys.
CREATE TABLE edges (
    task       INTEGER NOT NULL,
    upstream   TEXT    NOT NULL,
    downstream TEXT    NOT NULL,
    PRIMARY KEY (task, upstream, downstream)
) STRICT, WITHOUT ROWID;

-- How many upstreams of a step have not ended, and the first one that keeps it from running. The only part of a plan that
-- changes; a step without upstreams has no row.
CREATE TABLE missing_upstreams (
    task    INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    missing INTEGER NOT NULL CHECK (missing >= 0),
    blame   TEXT,
    PRIMARY KEY (task, key)
) STRICT, WITHOUT ROWID;

-- The grants of tasks whose flow key has a rate, until they are out of its window. They outlive the tasks.
CREATE TABLE flow_starts (
    tenant    TEXT    NOT NULL,
    workspace TEXT    NOT NULL,
    flow_key  TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    task      BLOB    NOT NULL CHECK (length(task) = 16),
    entry     INTEGER NOT NULL CHECK (entry > 0),
    until     INTEGER NOT NULL CHECK (until > at),
    PRIMARY KEY (tenant, workspace, flow_key, at, task, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_starts_until ON flow_starts (until);

-- What workers logged, in pieces: of an attempt and of a task so much is kept as the rules say. Lines are appended to the
-- content of the newest piece.
CREATE TABLE logs (
    task       BLOB    NOT NULL CHECK (length(task) = 16),
    attempt    INTEGER NOT NULL CHECK (attempt >= 1),
    first_line INTEGER NOT NULL CHECK (first_line >= 1),
    last_line  INTEGER NOT NULL CHECK (last_line >= first_line),
    lines      INTEGER NOT NULL CHECK (lines >= 1),
    bytes      INTEGER NOT NULL CHECK (bytes >= 1),
    -- How many lines before the first are not kept.
    dropped    INTEGER NOT NULL CHECK (dropped >= 0),
    content    TEXT    NOT NULL,
    PRIMARY KEY (task, attempt, first_line)
) STRICT, WITHOUT ROWID;

-- What runs used, by workspace and day. The use of a whole tenant is under the workspace '*'.
CREATE TABLE spend (
    tenant      TEXT    NOT NULL,
    workspace   TEXT    NOT NULL,
    day         INTEGER NOT NULL CHECK (day >= 0),
    cost_micros INTEGER NOT NULL CHECK (cost_micros >= 0),
    tokens      INTEGER NOT NULL CHECK (tokens >= 0),
    steps       INTEGER NOT NULL CHECK (steps >= 0),
    tool_calls  INTEGER NOT NULL CHECK (tool_calls >= 0),
    PRIMARY KEY (tenant, workspace, day)
) STRICT, WITHOUT ROWID;

-- Seals over the records of ended tasks: one chain for each tenant, made with a key that is in no database.
CREATE TABLE record_seals (
    tenant      TEXT    NOT NULL,
    n           INTEGER NOT NULL CHECK (n >= 1),
    at          INTEGER NOT NULL,
    complete_to INTEGER NOT NULL,
    first_end   INTEGER NOT NULL,
    last_end    INTEGER NOT NULL,
    count       INTEGER NOT NULL CHECK (count >= 1),
    root        BLOB    NOT NULL CHECK (length(root) = 32),
    chain       BLOB    NOT NULL CHECK (length(chain) = 32),
    seal        BLOB    NOT NULL CHECK (length(seal) = 40),
    -- The sealed records: 16 bytes of a task's id and 32 of a digest each.
    leaves      BLOB    NOT NULL,
    PRIMARY KEY (tenant, n)
) STRICT, WITHOUT ROWID;

-- Objects: typed, versioned rows for what is rare. Each change is an entry of the log, and the last one is the object.

CREATE TABLE objects (
    tenant      TEXT    NOT NULL,
    workspace   TEXT    NOT NULL,
    object_type TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    revision    INTEGER NOT NULL CHECK (revision >= 1),
    status      TEXT    NOT NULL,
    due         INTEGER,
    unique_key  TEXT,
    parent      TEXT,
    pending     INTEGER NOT NULL CHECK (pending = 0 OR pending = 1),
    body        TEXT    NOT NULL,
    PRIMARY KEY (tenant, workspace, object_type, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX objects_by_status ON objects (tenant, workspace, object_type, status, id);
CREATE INDEX objects_by_due ON objects (due, id) WHERE due IS NOT NULL;
CREATE INDEX objects_pending ON objects (tenant, workspace, object_type, id) WHERE pending = 1;
CREATE INDEX objects_by_parent ON objects (tenant, workspace, parent, object_type, id) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX objects_by_unique_key ON objects (tenant, workspace, object_type, unique_key)
    WHERE unique_key IS NOT NULL;

CREATE TABLE object_log (
    tenant      TEXT    NOT NULL,
    workspace   TEXT    NOT NULL,
    object_type TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    revision    INTEGER NOT NULL CHECK (revision >= 1),
    status      TEXT    NOT NULL,
    due         INTEGER,
    unique_key  TEXT,
    parent      TEXT,
    pending     INTEGER NOT NULL CHECK (pending = 0 OR pending = 1),
    body        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    by_key      TEXT,
    PRIMARY KEY (tenant, workspace, object_type, id, revision)
) STRICT, WITHOUT ROWID;

-- Administration.

-- Queues from which nothing is granted: since when, by which administrator's key, and why.
CREATE TABLE paused_queues (
    tenant    TEXT    NOT NULL,
    workspace TEXT    NOT NULL,
    queue     TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    by        TEXT    NOT NULL,
    reason    TEXT,
    PRIMARY KEY (tenant, workspace, queue)
) STRICT;

CREATE TABLE api_keys (
    id             TEXT    PRIMARY KEY,
    tenant         TEXT    NOT NULL,
    workspace      TEXT    NOT NULL,
    roles          TEXT    NOT NULL,
    digest         BLOB    NOT NULL CHECK (length(digest) = 32),
    created_at     INTEGER NOT NULL,
    name           TEXT,
    -- A list as JSON; NULL means every queue.
    queues         TEXT,
    expires_at     INTEGER,
    revoked_at     INTEGER,
    -- The secret before the last rotation, and until when it counts.
    previous       BLOB    CHECK (previous IS NULL OR length(previous) = 32),
    previous_until INTEGER,
    -- Kept roughly: a key in use is written down once in an hour.
    last_used_at   INTEGER
) STRICT, WITHOUT ROWID;

-- NULL means without that limit. A tenant without a row has none.
CREATE TABLE tenant_limits (
    tenant              TEXT    PRIMARY KEY,
    requests_per_second INTEGER CHECK (requests_per_second >= 1),
    burst               INTEGER CHECK (burst >= 1),
    unfinished_runs     INTEGER CHECK (unfinished_runs >= 0),
    changed_at          INTEGER NOT NULL
) STRICT;

-- Who changed what.
CREATE TABLE audit (
    n         INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    tenant    TEXT    NOT NULL,
    workspace TEXT    NOT NULL,
    actor     TEXT    NOT NULL,
    action    TEXT    NOT NULL,
    object    TEXT    NOT NULL,
    code      TEXT,
    times     INTEGER NOT NULL CHECK (times >= 1),
    before    BLOB    CHECK (before IS NULL OR length(before) = 32),
    after     BLOB    CHECK (after IS NULL OR length(after) = 32),
    request   TEXT,
    -- The name of the key and its code over this entry and the seal before.
    seal      BLOB    CHECK (seal IS NULL OR length(seal) = 40)
) STRICT;
CREATE INDEX audit_by_tenant ON audit (tenant, n);

-- The second line of defence. What is refused here, the rules should never have asked for.

CREATE TRIGGER live_is_known BEFORE INSERT ON live
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row AND id = NEW.id)
  OR EXISTS (SELECT 1 FROM done WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'a live task must have been submitted, and must never have ended'); END;
CREATE TRIGGER live_keeps_its_id BEFORE UPDATE OF row, id, priority ON live
BEGIN SELECT RAISE(ABORT, 'the id and priority of a task never change'); END;
-- One trigger for all that an update of a live task may not do, whichever connection makes it: a second one costs each update
-- more than all of these comparisons. One update may hold several decisions, so a task that was leased again in between may
-- be in `retry` or `waiting` whatever it was before. Only a task of a durable run passes from one kind or queue to another.
CREATE TRIGGER live_changes_by_the_rules BEFORE UPDATE ON live
WHEN NEW.revision < OLD.revision OR NEW.claim_version < OLD.claim_version OR NEW.attempt < OLD.attempt
  OR NEW.entries < OLD.entries OR NEW.decided_at < OLD.decided_at
  OR (NEW.revision = OLD.revision AND (NEW.state <> OLD.state OR NEW.claim_version <> OLD.claim_version
      OR NEW.attempt <> OLD.attempt OR NEW.wakes_at IS NOT OLD.wakes_at))
  OR (NEW.state <> OLD.state AND NOT (NEW.state = 'running'
      OR ((NEW.state = 'retry' OR NEW.state = 'waiting') AND (OLD.state = 'running' OR NEW.attempt > OLD.attempt))
      OR (NEW.state = 'waiting' AND OLD.state = 'retry')
      OR ((NEW.state = 'queued' OR NEW.state = 'waiting') AND NEW.run IS NOT NULL)))
  OR (NEW.lane <> OLD.lane AND NEW.run IS NULL)
  OR (OLD.tale IS NOT NULL AND (NEW.tale IS NULL OR substr(NEW.tale, 1, length(OLD.tale)) <> OLD.tale))
BEGIN SELECT CASE
    WHEN OLD.tale IS NOT NULL AND (NEW.tale IS NULL OR substr(NEW.tale, 1, length(OLD.tale)) <> OLD.tale)
        THEN RAISE(ABORT, 'history is append-only')
    WHEN NEW.lane <> OLD.lane AND NEW.run IS NULL
        THEN RAISE(ABORT, 'the queue and kind of a plain task never change')
    WHEN NEW.state <> OLD.state AND NEW.revision > OLD.revision
        THEN RAISE(ABORT, 'this change of state is not allowed')
    ELSE RAISE(ABORT, 'a task is changed by decisions, each with the next revision')
END; END;
CREATE TRIGGER done_is_known BEFORE INSERT ON done
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row)
  OR EXISTS (SELECT 1 FROM live WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'an ended task must have been submitted, and must no longer be live'); END;

-- Written once: what was submitted, what has ended, and how. It leaves by retention only.
CREATE TRIGGER inputs_no_update BEFORE UPDATE ON inputs
BEGIN SELECT RAISE(ABORT, 'inputs are written once'); END;
CREATE TRIGGER inputs_no_delete BEFORE DELETE ON inputs
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.row)
BEGIN SELECT RAISE(ABORT, 'inputs are written once'); END;
CREATE TRIGGER done_no_update BEFORE UPDATE ON done
BEGIN SELECT RAISE(ABORT, 'an ended task never changes'); END;
CREATE TRIGGER done_no_delete BEFORE DELETE ON done
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.row)
BEGIN SELECT RAISE(ABORT, 'an ended task never changes'); END;
CREATE TRIGGER attempts_no_update BEFORE UPDATE ON attempts
BEGIN SELECT RAISE(ABORT, 'closed attempts are written once'); END;
CREATE TRIGGER attempts_no_delete BEFORE DELETE ON attempts
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'closed attempts are written once'); END;
CREATE TRIGGER history_no_update BEFORE UPDATE ON history
BEGIN SELECT RAISE(ABORT, 'history is written once'); END;
CREATE TRIGGER history_no_delete BEFORE DELETE ON history
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'history is written once'); END;
CREATE TRIGGER refused_no_update BEFORE UPDATE ON refused
BEGIN SELECT RAISE(ABORT, 'refusals are written once'); END;
CREATE TRIGGER refused_no_delete BEFORE DELETE ON refused
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'refusals are written once'); END;

CREATE TRIGGER leaving_has_ended_long_ago BEFORE INSERT ON leaving
WHEN NOT EXISTS (SELECT 1 FROM done WHERE row = NEW.row AND completed_at <= NEW.at - 86400000)
BEGIN SELECT RAISE(ABORT, 'only tasks that ended at least a day ago can be deleted'); END;
-- A run is deleted as a whole: a task with a parent follows its root.
CREATE TRIGGER leaving_follows_its_root BEFORE INSERT ON leaving
WHEN EXISTS (SELECT 1 FROM inputs c JOIN inputs r ON r.id = c.root
    WHERE c.row = NEW.row AND NOT EXISTS (SELECT 1 FROM leaving WHERE row = r.row))
BEGIN SELECT RAISE(ABORT, 'a task with a parent is deleted with its run'); END;
CREATE TRIGGER leaving_no_update BEFORE UPDATE ON leaving
BEGIN SELECT RAISE(ABORT, 'the list of tasks to delete is never updated'); END;

CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are written once'); END;
CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON checkpoints
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'checkpoints are written once'); END;
CREATE TRIGGER children_end_once BEFORE UPDATE ON children
WHEN OLD.ended IS NOT NULL OR NEW.ended IS NULL OR NEW.task <> OLD.task OR NEW.key <> OLD.key
  OR NEW.child <> OLD.child OR NEW.digest <> OLD.digest OR NEW.detached <> OLD.detached
  OR NEW.number <> OLD.number OR NEW.at <> OLD.at
BEGIN SELECT RAISE(ABORT, 'a child is recorded once and ends once'); END;
CREATE TRIGGER children_no_delete BEFORE DELETE ON children
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'a child is recorded once and ends once'); END;
CREATE TRIGGER signals_taken_once BEFORE UPDATE ON signals
WHEN OLD.taken <> 0 OR NEW.taken <> 1 OR NEW.task <> OLD.task OR NEW.number <> OLD.number
  OR NEW.name <> OLD.name OR NEW.key IS NOT OLD.key OR NEW.payload IS NOT OLD.payload
  OR NEW.digest <> OLD.digest
BEGIN SELECT RAISE(ABORT, 'a signal is recorded once and taken once'); END;
CREATE TRIGGER signals_no_delete BEFORE DELETE ON signals
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'a signal is recorded once and taken once'); END;
CREATE TRIGGER steps_no_update BEFORE UPDATE ON steps
BEGIN SELECT RAISE(ABORT, 'the steps of a plan are written once'); END;
CREATE TRIGGER steps_no_delete BEFORE DELETE ON steps
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'the steps of a plan are written once'); END;
CREATE TRIGGER edges_no_update BEFORE UPDATE ON edges
BEGIN SELECT RAISE(ABORT, 'the edges of a plan are written once'); END;
CREATE TRIGGER edges_no_delete BEFORE DELETE ON edges
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'the edges of a plan are written once'); END;
CREATE TRIGGER missing_upstreams_keep_their_step BEFORE UPDATE OF task, key ON missing_upstreams
BEGIN SELECT RAISE(ABORT, 'what a step waits for belongs to the step'); END;
CREATE TRIGGER missing_upstreams_no_delete BEFORE DELETE ON missing_upstreams
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'what a step waits for belongs to the step'); END;

CREATE TRIGGER logs_are_known BEFORE INSERT ON logs WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE id = NEW.task)
BEGIN SELECT RAISE(ABORT, 'a log belongs to a submitted task'); END;
CREATE TRIGGER spend_only_grows BEFORE UPDATE ON spend
WHEN NEW.cost_micros < OLD.cost_micros OR NEW.tokens < OLD.tokens OR NEW.steps < OLD.steps OR NEW.tool_calls < OLD.tool_calls
  OR NEW.tenant <> OLD.tenant OR NEW.workspace <> OLD.workspace OR NEW.day <> OLD.day
BEGIN SELECT RAISE(ABORT, 'what was used stays used'); END;
CREATE TRIGGER spend_no_delete BEFORE DELETE ON spend
BEGIN SELECT RAISE(ABORT, 'what was used stays used'); END;
CREATE TRIGGER record_seals_no_update BEFORE UPDATE ON record_seals
BEGIN SELECT RAISE(ABORT, 'seals are written once'); END;
CREATE TRIGGER record_seals_no_delete BEFORE DELETE ON record_seals
BEGIN SELECT RAISE(ABORT, 'seals are written once'); END;

CREATE TRIGGER objects_grow_by_one BEFORE UPDATE ON objects
WHEN NEW.revision IS NOT OLD.revision + 1 OR NEW.parent IS NOT OLD.parent
BEGIN SELECT RAISE(ABORT, 'an object changes by one revision at a time and keeps its parent'); END;
CREATE TRIGGER objects_leave_with_their_run BEFORE DELETE ON objects
WHEN OLD.parent IS NULL OR NOT EXISTS (SELECT 1 FROM leaving)
BEGIN SELECT RAISE(ABORT, 'an object leaves only with its run'); END;
CREATE TRIGGER object_log_no_update BEFORE UPDATE ON object_log
BEGIN SELECT RAISE(ABORT, 'the log of objects is written once'); END;
-- An entry leaves only with its run, but the log of a schedule keeps its newest entries: time adds one with each firing,
-- for ever.
CREATE TRIGGER object_log_leaves_with_its_run BEFORE DELETE ON object_log
WHEN (OLD.parent IS NULL OR NOT EXISTS (SELECT 1 FROM leaving))
    AND NOT (OLD.object_type = 'schedule' AND EXISTS (SELECT 1 FROM objects o
        WHERE o.tenant = OLD.tenant AND o.workspace = OLD.workspace AND o.object_type = OLD.object_type
            AND o.id = OLD.id AND o.revision >= OLD.revision + 1000))
BEGIN SELECT RAISE(ABORT, 'the log of objects is written once'); END;

CREATE TRIGGER api_keys_stay BEFORE DELETE ON api_keys
BEGIN SELECT RAISE(ABORT, 'a key is revoked, never deleted'); END;
CREATE TRIGGER api_keys_keep_their_scope BEFORE UPDATE OF id, tenant, workspace ON api_keys
WHEN OLD.tenant <> NEW.tenant OR OLD.workspace <> NEW.workspace OR OLD.id <> NEW.id
BEGIN SELECT RAISE(ABORT, 'a key never changes its scope'); END;
CREATE TRIGGER api_keys_stay_revoked BEFORE UPDATE ON api_keys
WHEN OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NOT OLD.revoked_at
BEGIN SELECT RAISE(ABORT, 'a revoked key stays revoked'); END;
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is written once'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is written once'); END;
