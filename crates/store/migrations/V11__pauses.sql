-- Queues from which nothing is granted: since when, by which administrator's key, and why.
CREATE TABLE paused_queues (
    tenant    TEXT    NOT NULL,
    workspace TEXT    NOT NULL,
    queue     TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    by        TEXT    NOT NULL,
    reason    TEXT,
    PRIMARY KEY (tenant, workspace, queue)
) STRICT;
