-- A list of one scope visits the rows of that scope only: its lanes by name, and the tasks of each lane by age.
-- A lane is new so rarely that the first index costs nothing; the second is one more row for each submission.
CREATE INDEX lanes_by_name ON lanes (tenant, workspace, queue, kind);
CREATE INDEX inputs_by_lane ON inputs (lane, id);
