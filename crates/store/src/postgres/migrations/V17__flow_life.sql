-- Slots of flow keys that are held for life: from the first lease of a task until it has ended.

-- True for a task that does; NULL for one that holds its slot while it is leased, or has no key.
ALTER TABLE tenure.live
    ADD COLUMN flow_life boolean,
    ADD CONSTRAINT live_flow_life_check CHECK (flow_life IS NULL OR flow_key IS NOT NULL);

DROP INDEX tenure.live_flow_held;
CREATE INDEX live_flow_held ON tenure.live (tenant, workspace, flow_key)
    WHERE flow_key IS NOT NULL AND (lease IS NOT NULL OR (flow_life AND attempt > 0));
