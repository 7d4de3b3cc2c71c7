-- Slots of flow keys that are held for life: from the first lease of a task until it has ended.
--
-- 1 for a task that does; NULL for one that holds its slot while it is leased, or has no key.
ALTER TABLE live ADD COLUMN flow_life INTEGER;
