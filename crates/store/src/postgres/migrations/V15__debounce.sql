-- The debounce of flow keys: a task waits for a newer one with its key, which replaces it.

-- Until when that may happen, as it was submitted. NULL for a task without a debounce.
ALTER TABLE tenure.live
    ADD COLUMN debounced_until bigint,
    ADD CONSTRAINT live_debounced_check CHECK (debounced_until IS NULL OR flow_key IS NOT NULL);

-- At most one task of a key still waits; the others in it are ready or leased, and will leave.
CREATE INDEX live_debounced ON tenure.live (tenant, workspace, flow_key, debounced_until)
    WHERE debounced_until IS NOT NULL;
