-- Flow keys: at most so many tasks with the same key are leased at once.

-- The key of the task and its limit; NULL without one. Who holds a slot follows from the leases. A task that does not fit
-- is parked: it is marked as delayed too, and so leaves the index of ready tasks, which is the same as before.
ALTER TABLE tenure.live
    ADD COLUMN flow_key   text COLLATE "C",
    ADD COLUMN flow_limit integer,
    ADD COLUMN parked     boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT live_flow_check CHECK ((flow_key IS NULL) = (flow_limit IS NULL)),
    ADD CONSTRAINT live_parked_check CHECK (NOT parked OR (delayed AND flow_key IS NOT NULL));

-- Reads of delayed tasks do not walk over parked ones.
DROP INDEX tenure.live_delayed;
CREATE INDEX live_delayed ON tenure.live (tenant, workspace, queue, claimable_at)
    WHERE delayed AND NOT parked;

-- A plain task is in none of these.
CREATE INDEX live_flow_limits ON tenure.live (tenant, workspace, flow_key, flow_limit)
    WHERE flow_key IS NOT NULL;
CREATE INDEX live_flow_held ON tenure.live (tenant, workspace, flow_key)
    WHERE flow_key IS NOT NULL AND lease IS NOT NULL;
CREATE INDEX live_flow_offered ON tenure.live (tenant, workspace, flow_key, queue, kind)
    WHERE flow_key IS NOT NULL AND claimable_at IS NOT NULL AND NOT delayed;
CREATE INDEX live_flow_parked ON tenure.live (tenant, workspace, flow_key, queue, kind, place)
    WHERE parked;
