-- Plans whose steps are tasks of their own: steps and edges of a root, written once with its submission, and what each step
-- still waits for. A step is `blocked` until its upstreams have ended, and `skipped` if one of them keeps it from running.

-- The same table with the state `blocked`, which no check of a column can be changed to allow.
DROP TRIGGER done_is_known;
CREATE TABLE new_live (
    row           INTEGER PRIMARY KEY,
    id            BLOB    NOT NULL,
    lane          INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state = 'queued' OR state = 'retry' OR state = 'running'
        OR state = 'waiting' OR state = 'blocked'),
    revision      INTEGER NOT NULL CHECK (revision >= 1),
    claimable_at  INTEGER,
    wakes_at      INTEGER,
    lease_ms      INTEGER NOT NULL,
    started_at    INTEGER,
    attempt       INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    lost          INTEGER NOT NULL,
    undelivered   INTEGER NOT NULL,
    claim_version INTEGER NOT NULL,
    decided_at    INTEGER NOT NULL,
    entries       INTEGER NOT NULL,
    chain         BLOB    NOT NULL CHECK (length(chain) = 32),
    cancel        TEXT,
    lease         BLOB,
    owner         TEXT,
    poll          TEXT,
    fence         INTEGER,
    acquired_at   INTEGER,
    heartbeat_at  INTEGER,
    expires_at    INTEGER,
    attempt_at    INTEGER,
    heard         INTEGER,
    progress      TEXT,
    run           TEXT,
    waiting       TEXT,
    tale          BLOB,
    progressed_at INTEGER,
    stalled_at    INTEGER,
    -- The deadline of the stage or of the step; NULL for every other task.
    deadline      INTEGER,
    CHECK (state <> 'running' OR claimable_at IS NULL),
    CHECK ((state <> 'queued' AND state <> 'retry') OR claimable_at IS NOT NULL),
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (fence IS NOT NULL)),
    CHECK ((state = 'running') = (expires_at IS NOT NULL)),
    CHECK ((state = 'waiting' OR state = 'blocked') = (waiting IS NOT NULL))
) STRICT;
INSERT INTO new_live (
    row, id, lane, priority, state, revision, claimable_at, wakes_at, lease_ms, started_at, attempt,
    failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
    owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress, run,
    waiting, tale, progressed_at, stalled_at, deadline
) SELECT
    row, id, lane, priority, state, revision, claimable_at, wakes_at, lease_ms, started_at, attempt,
    failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
    owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress, run,
    waiting, tale, progressed_at, stalled_at, deadline
FROM live;
DROP TABLE live;
ALTER TABLE new_live RENAME TO live;

CREATE TRIGGER live_keeps_its_id BEFORE UPDATE OF row, id, priority ON live
BEGIN SELECT RAISE(ABORT, 'the id and priority of a task never change'); END;
CREATE TRIGGER live_keeps_its_lane BEFORE UPDATE OF lane ON live
WHEN NEW.run IS NULL
BEGIN SELECT RAISE(ABORT, 'the queue and kind of a task without stages never change'); END;
CREATE TRIGGER live_tale_grows BEFORE UPDATE OF tale ON live
WHEN OLD.tale IS NOT NULL
 AND (NEW.tale IS NULL OR substr(NEW.tale, 1, length(OLD.tale)) <> OLD.tale)
BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;

-- The same table with the state `skipped`. Triggers of other tables that name it are made again.
DROP TRIGGER leaving_has_ended_long_ago;
CREATE TABLE new_done (
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
    tale          BLOB,
    run           TEXT
) STRICT;
INSERT INTO new_done (
    row, state, reason, started_at, completed_at, attempt, failures, lost, claim_version,
    entries, record, cancel, fault, output, tale, run
) SELECT
    row, state, reason, started_at, completed_at, attempt, failures, lost, claim_version,
    entries, record, cancel, fault, output, tale, run
FROM done;
DROP TABLE done;
ALTER TABLE new_done RENAME TO done;

CREATE TRIGGER live_is_known BEFORE INSERT ON live
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row AND id = NEW.id)
  OR EXISTS (SELECT 1 FROM done WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'a live task must have been submitted, and must never have ended'); END;
CREATE TRIGGER done_is_known BEFORE INSERT ON done
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row)
  OR EXISTS (SELECT 1 FROM live WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'an ended task must have been submitted, and must no longer be live'); END;
CREATE TRIGGER done_no_update BEFORE UPDATE ON done
BEGIN SELECT RAISE(ABORT, 'an ended task never changes'); END;
CREATE TRIGGER done_no_delete BEFORE DELETE ON done
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.row)
BEGIN SELECT RAISE(ABORT, 'an ended task never changes'); END;
CREATE TRIGGER leaving_has_ended_long_ago BEFORE INSERT ON leaving
WHEN NOT EXISTS (SELECT 1 FROM done WHERE row = NEW.row AND completed_at <= NEW.at - 86400000)
BEGIN SELECT RAISE(ABORT, 'only tasks that ended at least a day ago can be deleted'); END;

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
