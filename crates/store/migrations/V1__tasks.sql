-- What lives is narrow and changes; what has ended is written once, and the database itself refuses
-- to change it. Rows are numbered in order of arrival, so that every insert is an append.

CREATE TABLE meta (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    store_id BLOB    NOT NULL CHECK (length(store_id) = 16),
    epoch    INTEGER NOT NULL CHECK (epoch >= 1),
    -- The time of the last commit; NULL before the first.
    clock    INTEGER
) STRICT;
INSERT INTO meta (one, store_id, epoch, clock) VALUES (1, randomblob(16), 1, NULL);

-- Where tasks wait: each combination of scope, queue and kind has a number.
CREATE TABLE lanes (
    lane      INTEGER PRIMARY KEY,
    tenant    TEXT NOT NULL,
    workspace TEXT NOT NULL,
    queue     TEXT NOT NULL,
    kind      TEXT NOT NULL
) STRICT;

CREATE TABLE inputs (
    row         INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    lane        INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    -- NULL when the task ended in the commit that created it: then only its history knows.
    policy      TEXT,
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    key         TEXT,
    goal        TEXT,
    task_key    TEXT,
    asset_id    TEXT,
    resources   TEXT,
    labels      TEXT,
    traceparent TEXT,
    input       TEXT    NOT NULL
) STRICT;

-- The only table of tasks that is updated. No secondary index: what is ready, due or expiring is
-- ordered in memory.
CREATE TABLE live (
    row           INTEGER PRIMARY KEY,
    id            BLOB    NOT NULL,
    lane          INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN ('queued', 'retry', 'running')),
    revision      INTEGER NOT NULL CHECK (revision >= 1),
    due           INTEGER,
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
    CHECK ((state = 'running') = (due IS NULL)),
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (fence IS NOT NULL)),
    CHECK ((state = 'running') = (expires_at IS NOT NULL))
) STRICT;

CREATE TABLE done (
    row           INTEGER PRIMARY KEY,
    state         TEXT    NOT NULL CHECK (state IN ('succeeded', 'failed', 'halted', 'cancelled')),
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
    output        TEXT
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
    outcome    TEXT    NOT NULL CHECK (outcome IN
        ('SUCCEEDED', 'FAILED', 'CANCELLED', 'LOST', 'UNDELIVERED', 'REVOKED')),
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
    stamp   TEXT    NOT NULL CHECK (stamp IN ('committed', 'cancelled', 'rejected')),
    digest  BLOB,
    at      INTEGER NOT NULL,
    UNIQUE (task, lease, call, code)
) STRICT;

-- Idempotency keys by their hash, in order of use, so that inserts append and the oldest hour is
-- always at the front. The key itself is in `inputs`.
CREATE TABLE keys (
    n    INTEGER PRIMARY KEY,
    hour INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    task INTEGER NOT NULL
) STRICT;

CREATE TABLE api_keys (
    id         TEXT    PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    workspace  TEXT    NOT NULL,
    roles      TEXT    NOT NULL,
    digest     BLOB    NOT NULL CHECK (length(digest) = 32),
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER live_is_known BEFORE INSERT ON live
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row AND id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'a live task must have been submitted'); END;

CREATE TRIGGER live_is_not_done BEFORE INSERT ON live
WHEN EXISTS (SELECT 1 FROM done WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'an ended task never lives again'); END;

CREATE TRIGGER live_keeps_its_id BEFORE UPDATE OF row, id, lane, priority ON live
BEGIN SELECT RAISE(ABORT, 'what names a task never changes'); END;

CREATE TRIGGER done_is_known BEFORE INSERT ON done
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row)
  OR EXISTS (SELECT 1 FROM live WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'only a submitted task that lives no more is done'); END;

CREATE TRIGGER inputs_no_update BEFORE UPDATE ON inputs
BEGIN SELECT RAISE(ABORT, 'inputs are written once'); END;
CREATE TRIGGER inputs_no_delete BEFORE DELETE ON inputs
BEGIN SELECT RAISE(ABORT, 'inputs are written once'); END;
CREATE TRIGGER done_no_update BEFORE UPDATE ON done
BEGIN SELECT RAISE(ABORT, 'an ended task never changes'); END;
CREATE TRIGGER done_no_delete BEFORE DELETE ON done
BEGIN SELECT RAISE(ABORT, 'an ended task never changes'); END;
CREATE TRIGGER attempts_no_update BEFORE UPDATE ON attempts
BEGIN SELECT RAISE(ABORT, 'closed attempts are written once'); END;
CREATE TRIGGER attempts_no_delete BEFORE DELETE ON attempts
BEGIN SELECT RAISE(ABORT, 'closed attempts are written once'); END;
CREATE TRIGGER history_no_update BEFORE UPDATE ON history
BEGIN SELECT RAISE(ABORT, 'history is written once'); END;
CREATE TRIGGER history_no_delete BEFORE DELETE ON history
BEGIN SELECT RAISE(ABORT, 'history is written once'); END;
CREATE TRIGGER refused_no_update BEFORE UPDATE ON refused
BEGIN SELECT RAISE(ABORT, 'refusals are written once'); END;
CREATE TRIGGER refused_no_delete BEFORE DELETE ON refused
BEGIN SELECT RAISE(ABORT, 'refusals are written once'); END;
