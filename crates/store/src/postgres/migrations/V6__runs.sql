-- Durable runs: tasks that record checkpoints, wait, take signals and have children. A plain task has NULL in the new
-- columns and no row in the new tables.

-- A task with a parent belongs to the run of `root`. A root has neither.
ALTER TABLE tenure.inputs
    ADD COLUMN root   bytea CHECK (length(root) = 16),
    ADD COLUMN parent bytea CHECK (length(parent) = 16);
CREATE INDEX inputs_by_root ON tenure.inputs (root) WHERE root IS NOT NULL;
-- Lists show roots, and must not walk over the thousands of children that one of them may have.
CREATE INDEX inputs_roots ON tenure.inputs (tenant, workspace, id) WHERE parent IS NULL;

ALTER TABLE tenure.live
    ADD COLUMN parent  bytea,
    ADD COLUMN run     text,
    ADD COLUMN waiting text,
    DROP CONSTRAINT live_state_check,
    ADD CONSTRAINT live_state_check CHECK (state IN ('queued', 'retry', 'running', 'waiting')),
    ADD CONSTRAINT live_waiting_check CHECK ((state = 'waiting') = (waiting IS NOT NULL));
-- Tasks that are no runs of their own, for the count of unfinished runs.
CREATE INDEX live_children ON tenure.live (tenant) WHERE parent IS NOT NULL;

ALTER TABLE tenure.done ADD COLUMN run text;

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

-- Second line of defence: what the rules never ask for.
-- Several decisions of one task may be written as one change, when a store is copied: a further attempt says that the task
-- was running in between.
DROP TRIGGER live_changes_by_the_rules ON tenure.live;
CREATE TRIGGER live_changes_by_the_rules BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND NOT (NEW.state = 'running'
        OR (NEW.state IN ('retry', 'waiting') AND (OLD.state = 'running' OR NEW.attempt > OLD.attempt))
        OR (NEW.state = 'waiting' AND OLD.state = 'retry')))
    EXECUTE FUNCTION tenure.refuse('this change of state is not allowed');
DROP TRIGGER live_keeps_its_name ON tenure.live;
CREATE TRIGGER live_keeps_its_name BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN ((NEW.id, NEW.tenant, NEW.workspace, NEW.queue, NEW.kind, NEW.priority, NEW.place, NEW.parent)
        IS DISTINCT FROM (OLD.id, OLD.tenant, OLD.workspace, OLD.queue, OLD.kind, OLD.priority, OLD.place, OLD.parent))
    EXECUTE FUNCTION tenure.refuse('the id, scope, queue, kind, priority and parent of a task never change');

CREATE TRIGGER checkpoints_known AFTER INSERT ON tenure.checkpoints
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER children_known AFTER INSERT ON tenure.children
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER signals_known AFTER INSERT ON tenure.signals
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER waits_known AFTER INSERT ON tenure.waits
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();

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

GRANT SELECT, INSERT, DELETE ON tenure.checkpoints TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (ended) ON tenure.children TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (taken) ON tenure.signals TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (items) ON tenure.waits TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (due, parked) ON tenure.messages TO tenure_rows;
