-- Progress clocks: when the attempt of a running task last made progress, and when it was found stalled. NULL for a task
-- without such a clock.
ALTER TABLE live ADD COLUMN progressed_at INTEGER;
ALTER TABLE live ADD COLUMN stalled_at INTEGER;
