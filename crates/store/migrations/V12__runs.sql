-- Durable runs: tasks that record checkpoints, wait, take signals and have children.
--
-- A plain task has NULL in the new columns and no row in the new tables.

-- A task with a parent belongs to a run. A root has neither.
ALTER TABLE inputs ADD COLUMN root BLOB;
ALTER TABLE inputs ADD COLUMN parent BLOB;
CREATE INDEX inputs_by_root ON inputs (root) WHERE root IS NOT NULL;

-- The same table with the state `waiting`, which no check of a column can be changed to allow.
DROP TRIGGER done_is_known;
CREATE TABLE new_live (
    row           INTEGER PRIMARY KEY,
    id            BLOB    NOT NULL,
    lane          INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state = 'queued' OR state = 'retry' OR state = 'running' OR state = 'waiting'),
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
    CHECK (state <> 'running' OR claimable_at IS NULL),
    CHECK ((state <> 'queued' AND state <> 'retry') OR claimable_at IS NOT NULL),
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (fence IS NOT NULL)),
    CHECK ((state = 'running') = (expires_at IS NOT NULL)),
    CHECK ((state = 'waiting') = (waiting IS NOT NULL))
) STRICT;
INSERT INTO new_live (
    row, id, lane, priority, state, revision, claimable_at, wakes_at, lease_ms, started_at, attempt,
    failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
    owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress, tale
) SELECT
    row, id, lane, priority, state, revision, claimable_at, wakes_at, lease_ms, started_at, attempt,
    failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
    owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress, tale
FROM live;
DROP TABLE live;
ALTER TABLE new_live RENAME TO live;

CREATE TRIGGER live_is_known BEFORE INSERT ON live
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row AND id = NEW.id)
  OR EXISTS (SELECT 1 FROM done WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'a live task must have been submitted, and must never have ended'); END;

CREATE TRIGGER live_keeps_its_id BEFORE UPDATE OF row, id, lane, priority ON live
BEGIN SELECT RAISE(ABORT, 'the id, queue, kind and priority of a task never change'); END;

CREATE TRIGGER live_tale_grows BEFORE UPDATE OF tale ON live
WHEN OLD.tale IS NOT NULL
 AND (NEW.tale IS NULL OR substr(NEW.tale, 1, length(OLD.tale)) <> OLD.tale)
BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;

CREATE TRIGGER done_is_known BEFORE INSERT ON done
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row)
  OR EXISTS (SELECT 1 FROM live WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'an ended task must have been submitted, and must no longer be live'); END;

ALTER TABLE done ADD COLUMN run TEXT;

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
CREATE INDEX messages_by_due ON messages (due) WHERE parked IS NULL;

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

-- A run is deleted as a whole: a task with a parent follows its root.
CREATE TRIGGER leaving_follows_its_root BEFORE INSERT ON leaving
WHEN EXISTS (SELECT 1 FROM inputs c JOIN inputs r ON r.id = c.root
    WHERE c.row = NEW.row AND NOT EXISTS (SELECT 1 FROM leaving WHERE row = r.row))
BEGIN SELECT RAISE(ABORT, 'a task with a parent is deleted with its run'); END;
