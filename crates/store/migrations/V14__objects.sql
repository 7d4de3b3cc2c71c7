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
    pending     INTEGER NOT NULL CHECK (pending IN (0, 1)),
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
    pending     INTEGER NOT NULL CHECK (pending IN (0, 1)),
    body        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    by_key      TEXT,
    PRIMARY KEY (tenant, workspace, object_type, id, revision)
) STRICT, WITHOUT ROWID;

-- Second line of defence: what no decision ever asks for.
CREATE TRIGGER objects_grow_by_one BEFORE UPDATE ON objects
WHEN NEW.revision IS NOT OLD.revision + 1 OR NEW.parent IS NOT OLD.parent
BEGIN SELECT RAISE(ABORT, 'an object changes by one revision at a time and keeps its parent'); END;
CREATE TRIGGER objects_leave_with_their_run BEFORE DELETE ON objects
WHEN OLD.parent IS NULL OR NOT EXISTS (SELECT 1 FROM leaving)
BEGIN SELECT RAISE(ABORT, 'an object leaves only with its run'); END;
CREATE TRIGGER object_log_no_update BEFORE UPDATE ON object_log
BEGIN SELECT RAISE(ABORT, 'the log of objects is written once'); END;
CREATE TRIGGER object_log_leaves_with_its_run BEFORE DELETE ON object_log
WHEN OLD.parent IS NULL OR NOT EXISTS (SELECT 1 FROM leaving)
BEGIN SELECT RAISE(ABORT, 'the log of objects is written once'); END;
