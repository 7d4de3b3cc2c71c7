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
CREATE INDEX objects_by_status ON tenure.objects (tenant, workspace, object_type, status, id);
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

-- Second line of defence: what no decision ever asks for.
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

ALTER TABLE tenure.objects ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.objects USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.object_log ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.object_log USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
GRANT SELECT, INSERT, DELETE, UPDATE (revision, status, due, unique_key, pending, body) ON tenure.objects TO tenure_rows;
GRANT SELECT, INSERT, DELETE ON tenure.object_log TO tenure_rows;
