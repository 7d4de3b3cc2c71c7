-- The state of a task and the instant from which it may be claimed are two columns, and neither is derived from the
-- other. `due` was NULL exactly while a task ran, so that NULL meant a state. `claimable_at` is NULL for every task that
-- cannot be claimed, whatever its state.
DROP TRIGGER done_is_known;

CREATE TABLE new_live (
    row           INTEGER PRIMARY KEY,
    id            BLOB    NOT NULL,
    lane          INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state = 'queued' OR state = 'retry' OR state = 'running'),
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
    tale          BLOB,
    CHECK (state <> 'running' OR claimable_at IS NULL),
    CHECK ((state <> 'queued' AND state <> 'retry') OR claimable_at IS NOT NULL),
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (fence IS NOT NULL)),
    CHECK ((state = 'running') = (expires_at IS NOT NULL))
) STRICT;
INSERT INTO new_live (
    row, id, lane, priority, state, revision, claimable_at, wakes_at, lease_ms, started_at, attempt,
    failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
    owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress, tale
) SELECT
    row, id, lane, priority, state, revision, due, wakes_at, lease_ms, started_at, attempt,
    failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
    owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress, tale
FROM live;
DROP TABLE live;
ALTER TABLE new_live RENAME TO live;

-- The same triggers, with texts that say what was refused.
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

DROP TRIGGER leaving_has_ended_long_ago;
CREATE TRIGGER leaving_has_ended_long_ago BEFORE INSERT ON leaving
WHEN NOT EXISTS (SELECT 1 FROM done WHERE row = NEW.row AND completed_at <= NEW.at - 86400000)
BEGIN SELECT RAISE(ABORT, 'only tasks that ended at least a day ago can be deleted'); END;

DROP TRIGGER leaving_no_update;
CREATE TRIGGER leaving_no_update BEFORE UPDATE ON leaving
BEGIN SELECT RAISE(ABORT, 'the list of tasks to delete is never updated'); END;
