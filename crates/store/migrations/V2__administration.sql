-- Keys that are named, limited, rotated and revoked; and who changed what, which is only added to.

ALTER TABLE api_keys ADD COLUMN name TEXT;
-- A list as JSON; NULL means every queue.
ALTER TABLE api_keys ADD COLUMN queues TEXT;
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
ALTER TABLE api_keys ADD COLUMN revoked_at INTEGER;
-- The secret before the last rotation, and until when it counts.
ALTER TABLE api_keys ADD COLUMN previous BLOB CHECK (previous IS NULL OR length(previous) = 32);
ALTER TABLE api_keys ADD COLUMN previous_until INTEGER;

CREATE TRIGGER api_keys_stay BEFORE DELETE ON api_keys
BEGIN SELECT RAISE(ABORT, 'a key is revoked, never deleted'); END;
CREATE TRIGGER api_keys_keep_their_scope BEFORE UPDATE OF id, tenant, workspace ON api_keys
WHEN OLD.tenant <> NEW.tenant OR OLD.workspace <> NEW.workspace OR OLD.id <> NEW.id
BEGIN SELECT RAISE(ABORT, 'a key never changes its scope'); END;
CREATE TRIGGER api_keys_stay_revoked BEFORE UPDATE ON api_keys
WHEN OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NOT OLD.revoked_at
BEGIN SELECT RAISE(ABORT, 'a revoked key stays revoked'); END;

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
    request   TEXT
) STRICT;
CREATE INDEX audit_by_tenant ON audit (tenant, n);

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is written once'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is written once'); END;
