-- Rates of flow keys: at most so many tasks with the same key start in any window of so long.
--
-- The rate of the task's key as one number: the larger one counts where two meet. NULL without one.
ALTER TABLE live ADD COLUMN flow_rate INTEGER;

-- The grants of tasks whose key has a rate, until they are out of its window. They outlive the tasks.
CREATE TABLE flow_starts (
    tenant    TEXT    NOT NULL,
    workspace TEXT    NOT NULL,
    flow_key  TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    task      BLOB    NOT NULL CHECK (length(task) = 16),
    entry     INTEGER NOT NULL CHECK (entry > 0),
    until     INTEGER NOT NULL CHECK (until > at),
    PRIMARY KEY (tenant, workspace, flow_key, at, task, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_starts_until ON flow_starts (until);
