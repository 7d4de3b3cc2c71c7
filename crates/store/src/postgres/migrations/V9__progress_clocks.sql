-- Progress clocks: when the attempt of a running task last made progress, and when it was found stalled. NULL for a task
-- without such a clock.
ALTER TABLE tenure.live
    ADD COLUMN progressed_at bigint,
    ADD COLUMN stalled_at    bigint;
