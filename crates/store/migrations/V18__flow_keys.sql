-- Flow keys: at most so many tasks with the same key are leased at once.
--
-- The key of the task and its limit; NULL without one. Who holds a slot follows from the leases.
ALTER TABLE live ADD COLUMN flow_key TEXT;
ALTER TABLE live ADD COLUMN flow_limit INTEGER;

-- For lists of keys. The writer keeps its own order in memory.
CREATE INDEX live_by_flow_key ON live (flow_key) WHERE flow_key IS NOT NULL;
