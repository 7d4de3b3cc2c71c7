-- Seals over the records of ended tasks: one chain for each tenant, made with a key that is in no database.
CREATE TABLE tenure.record_seals (
    tenant      text    NOT NULL COLLATE "C",
    n           bigint  NOT NULL CHECK (n >= 1),
    at          bigint  NOT NULL,
    complete_to bigint  NOT NULL,
    first_end   bigint  NOT NULL,
    last_end    bigint  NOT NULL,
    count       bigint  NOT NULL CHECK (count >= 1),
    root        bytea   NOT NULL CHECK (length(root) = 32),
    chain       bytea   NOT NULL CHECK (length(chain) = 32),
    seal        bytea   NOT NULL CHECK (length(seal) = 40),
    -- The sealed records: 16 bytes of a task's id and 32 of a digest each.
    leaves      bytea   NOT NULL,
    PRIMARY KEY (tenant, n)
);
-- Only the sealer and its checks read them, and both see all scopes.
ALTER TABLE tenure.record_seals ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.record_seals USING ('*' = ANY ((SELECT tenure.scopes())::text[]));
GRANT SELECT, INSERT ON tenure.record_seals TO tenure_rows;
CREATE TRIGGER record_seals_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON tenure.record_seals
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('seals are written once');

-- Finds what ended since a time, for the sealer. Ended tasks are appended nearly in this order, so the index is a few
-- pages and costs an ending nothing.
CREATE INDEX done_by_end ON tenure.done USING brin (completed_at) WITH (pages_per_range = 32);
