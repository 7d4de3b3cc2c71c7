-- What a lifecycle writes, in fewer rows and with less work for each.
--
-- The first entries of a history stand in rows that are written anyway, packed: the submission's in
-- `inputs`, the next ones in `live`, from where they move to `done`. What is longer goes on in
-- `history`. Rows from before this step have no such tale, and their whole history in `history`.
--
-- A check against a list of values builds a table of them for every row that is written; a check
-- against one value after the other builds none. Hence the same tables again.

ALTER TABLE inputs ADD COLUMN tale BLOB;
-- The policy, packed; rows from before this step have it as text.
ALTER TABLE inputs ADD COLUMN terms BLOB;

DROP TRIGGER live_is_known;
DROP TRIGGER live_is_not_done;
DROP TRIGGER done_is_known;
DROP TRIGGER leaving_has_ended_long_ago;

CREATE TABLE new_live (
    row           INTEGER PRIMARY KEY,
    id            BLOB    NOT NULL,
    lane          INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state = 'queued' OR state = 'retry' OR state = 'running'),
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
    tale          BLOB,
    CHECK ((state = 'running') = (due IS NULL)),
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (fence IS NOT NULL)),
    CHECK ((state = 'running') = (expires_at IS NOT NULL))
) STRICT;
INSERT INTO new_live (
    row, id, lane, priority, state, revision, due, wakes_at, lease_ms, started_at, attempt,
    failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
    owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress
) SELECT
    row, id, lane, priority, state, revision, due, wakes_at, lease_ms, started_at, attempt,
    failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
    owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress
FROM live;
DROP TABLE live;
ALTER TABLE new_live RENAME TO live;

CREATE TABLE new_done (
    row           INTEGER PRIMARY KEY,
    state         TEXT    NOT NULL CHECK
        (state = 'succeeded' OR state = 'failed' OR state = 'halted' OR state = 'cancelled'),
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
    tale          BLOB
) STRICT;
INSERT INTO new_done (
    row, state, reason, started_at, completed_at, attempt, failures, lost, claim_version,
    entries, record, cancel, fault, output
) SELECT
    row, state, reason, started_at, completed_at, attempt, failures, lost, claim_version,
    entries, record, cancel, fault, output
FROM done;
DROP TABLE done;
ALTER TABLE new_done RENAME TO done;

CREATE TABLE new_attempts (
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
INSERT INTO new_attempts (
    task, attempt, lease, fence, owner, granted_at, started_at, closed_at, outcome, reason,
    report, fault, claims
) SELECT
    task, attempt, lease, fence, owner, granted_at, started_at, closed_at, outcome, reason,
    report, fault, claims
FROM attempts;
DROP TABLE attempts;
ALTER TABLE new_attempts RENAME TO attempts;

-- One guard instead of two: each is a program of its own that runs for every row.
CREATE TRIGGER live_is_known BEFORE INSERT ON live
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row AND id = NEW.id)
  OR EXISTS (SELECT 1 FROM done WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'only a submitted task that has not ended lives'); END;

CREATE TRIGGER live_keeps_its_id BEFORE UPDATE OF row, id, lane, priority ON live
BEGIN SELECT RAISE(ABORT, 'what names a task never changes'); END;

CREATE TRIGGER live_tale_grows BEFORE UPDATE OF tale ON live
WHEN OLD.tale IS NOT NULL
 AND (NEW.tale IS NULL OR substr(NEW.tale, 1, length(OLD.tale)) <> OLD.tale)
BEGIN SELECT RAISE(ABORT, 'what was told is never told otherwise'); END;

CREATE TRIGGER done_is_known BEFORE INSERT ON done
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row)
  OR EXISTS (SELECT 1 FROM live WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'only a submitted task that lives no more is done'); END;

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

CREATE TRIGGER leaving_has_ended_long_ago BEFORE INSERT ON leaving
WHEN NOT EXISTS (SELECT 1 FROM done WHERE row = NEW.row AND completed_at <= NEW.at - 86400000)
BEGIN SELECT RAISE(ABORT, 'only what ended a day ago may leave'); END;
