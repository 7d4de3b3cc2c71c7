-- Queues from which nothing is granted: since when, by which administrator's key, and why.
CREATE TABLE tenure.paused_queues (
    tenant    text   NOT NULL,
    workspace text   NOT NULL,
    queue     text   NOT NULL,
    at        bigint NOT NULL,
    by        text   NOT NULL,
    reason    text,
    PRIMARY KEY (tenant, workspace, queue)
);
ALTER TABLE tenure.paused_queues ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.paused_queues USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.paused_queues TO tenure_rows;

-- Grows with every change of that table. A batch that was decided before the last change does not commit.
ALTER TABLE tenure.meta ADD COLUMN pauses bigint NOT NULL DEFAULT 0;
GRANT UPDATE (pauses) ON tenure.meta TO tenure_rows;
