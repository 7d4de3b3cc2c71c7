-- Which blocks of 64 rows of `inputs` hold tasks of a lane. A list reads the blocks of its lanes, so it visits at most
-- 63 rows of other lanes for each of its own. The index it replaces cost an entry for every submission, 11 % more bytes
-- for a task's life; this costs an entry for every 64 submissions to a lane that is busy.
CREATE TABLE lane_blocks (
    lane  INTEGER NOT NULL,
    block INTEGER NOT NULL,
    PRIMARY KEY (lane, block)
) STRICT, WITHOUT ROWID;
INSERT INTO lane_blocks SELECT DISTINCT lane, row >> 6 FROM inputs;
DROP INDEX inputs_by_lane;
