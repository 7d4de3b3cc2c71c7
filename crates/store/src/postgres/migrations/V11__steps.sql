-- Plans whose steps are tasks of their own: steps and edges of a root, written once with its submission, and what each step
-- still waits for. A step is `blocked` until its upstreams have ended, and `skipped` if one of them keeps it from running.
ALTER TABLE tenure.live
    DROP CONSTRAINT live_state_check,
    ADD CONSTRAINT live_state_check CHECK (state IN ('queued', 'retry', 'running', 'waiting', 'blocked')),
    DROP CONSTRAINT live_waiting_check,
    ADD CONSTRAINT live_waiting_check CHECK ((state IN ('waiting', 'blocked')) = (waiting IS NOT NULL));
ALTER TABLE tenure.done
    DROP CONSTRAINT done_state_check,
    ADD CONSTRAINT done_state_check CHECK (state IN ('succeeded', 'failed', 'halted', 'cancelled', 'skipped'));

-- The steps of a plan, with what their tasks are created with.
CREATE TABLE tenure.steps (
    task      bytea   NOT NULL,
    place     integer NOT NULL CHECK (place >= 0),
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    key       text    COLLATE "C" NOT NULL,
    step      text    NOT NULL,
    upstreams text    NOT NULL,
    spec      text    NOT NULL,
    PRIMARY KEY (task, place),
    UNIQUE (task, key)
);

-- The downstreams of a step are told in the order of their keys.
CREATE TABLE tenure.edges (
    task       bytea NOT NULL,
    upstream   text  COLLATE "C" NOT NULL,
    downstream text  COLLATE "C" NOT NULL,
    tenant     text  NOT NULL,
    workspace  text  NOT NULL,
    PRIMARY KEY (task, upstream, downstream)
);

-- How many upstreams of a step have not ended, and the first one that keeps it from running. The only part of a plan that
-- changes; a step without upstreams has no row.
CREATE TABLE tenure.missing_upstreams (
    task      bytea   NOT NULL,
    key       text    COLLATE "C" NOT NULL,
    tenant    text    NOT NULL,
    workspace text    NOT NULL,
    missing   integer NOT NULL CHECK (missing >= 0),
    blame     text,
    PRIMARY KEY (task, key)
) WITH (fillfactor = 70);

CREATE TRIGGER steps_known AFTER INSERT ON tenure.steps
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER edges_known AFTER INSERT ON tenure.edges
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();
CREATE TRIGGER missing_upstreams_known AFTER INSERT ON tenure.missing_upstreams
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION tenure.check_rows();

-- Second line of defence: what the rules never ask for.
CREATE TRIGGER steps_stay BEFORE UPDATE OR TRUNCATE ON tenure.steps
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('the steps of a plan are written once');
CREATE TRIGGER steps_leave BEFORE DELETE ON tenure.steps
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('the steps of a plan are written once');
CREATE TRIGGER edges_stay BEFORE UPDATE OR TRUNCATE ON tenure.edges
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('the edges of a plan are written once');
CREATE TRIGGER edges_leave BEFORE DELETE ON tenure.edges
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('the edges of a plan are written once');
CREATE TRIGGER missing_upstreams_keep_their_step BEFORE UPDATE ON tenure.missing_upstreams FOR EACH ROW
    WHEN ((NEW.task, NEW.key, NEW.tenant, NEW.workspace)
        IS DISTINCT FROM (OLD.task, OLD.key, OLD.tenant, OLD.workspace))
    EXECUTE FUNCTION tenure.refuse('what a step waits for belongs to the step');
CREATE TRIGGER missing_upstreams_stay BEFORE TRUNCATE ON tenure.missing_upstreams
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('what a step waits for belongs to the step');
CREATE TRIGGER missing_upstreams_leave BEFORE DELETE ON tenure.missing_upstreams
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_unless_forgetting('what a step waits for belongs to the step');

ALTER TABLE tenure.steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.steps USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.edges ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.edges USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
ALTER TABLE tenure.missing_upstreams ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.missing_upstreams USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));

GRANT SELECT, INSERT, DELETE ON tenure.steps TO tenure_rows;
GRANT SELECT, INSERT, DELETE ON tenure.edges TO tenure_rows;
GRANT SELECT, INSERT, DELETE, UPDATE (missing, blame) ON tenure.missing_upstreams TO tenure_rows;
