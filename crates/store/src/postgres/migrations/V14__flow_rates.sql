-- Rates of flow keys: at most so many tasks with the same key start in any window of so long.

-- The rate of the task's key as one number: the larger one counts where two meet. NULL without one.
ALTER TABLE tenure.live
    ADD COLUMN flow_rate bigint,
    ADD CONSTRAINT live_flow_rate_check CHECK (flow_rate IS NULL OR flow_key IS NOT NULL);

-- A task without a rate is not in it.
CREATE INDEX live_flow_rates ON tenure.live (tenant, workspace, flow_key, flow_rate DESC) WHERE flow_rate IS NOT NULL;

-- The grants of tasks whose key has a rate, until they are out of its window. They outlive the tasks.
CREATE TABLE tenure.flow_starts (
    tenant    text    NOT NULL COLLATE "C",
    workspace text    NOT NULL COLLATE "C",
    flow_key  text    NOT NULL COLLATE "C",
    at        bigint  NOT NULL,
    task      bytea   NOT NULL CHECK (octet_length(task) = 16),
    entry     integer NOT NULL CHECK (entry > 0),
    until     bigint  NOT NULL CHECK (until > at),
    PRIMARY KEY (tenant, workspace, flow_key, at, task, entry)
);
CREATE INDEX flow_starts_until ON tenure.flow_starts (until);

ALTER TABLE tenure.flow_starts ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.flow_starts USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
-- Updating is needed to lock what is deleted.
GRANT SELECT, INSERT, UPDATE (until), DELETE ON tenure.flow_starts TO tenure_rows;
