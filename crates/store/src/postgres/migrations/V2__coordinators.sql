-- Which server the store is on, whether its commits wait for a standby, and for which server the epoch was
-- raised, because it may not have had all that was acknowledged.
ALTER TABLE tenure.meta
    ADD COLUMN server     text,
    ADD COLUMN waits      boolean NOT NULL DEFAULT false,
    ADD COLUMN raised_for text;
GRANT UPDATE (server, waits, raised_for) ON tenure.meta TO tenure_rows;

-- The signing keys that all coordinators share, sealed with a key that is in no database.
CREATE TABLE tenure.ring (
    one     integer PRIMARY KEY CHECK (one = 1),
    version bigint  NOT NULL CHECK (version >= 1),
    sealed  bytea   NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON tenure.ring TO tenure_rows;
