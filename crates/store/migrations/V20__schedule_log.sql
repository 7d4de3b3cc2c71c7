-- The log of a schedule keeps its newest entries: time adds one with each firing, for ever. All other logs stay as they
-- were: an entry leaves only with its run.
DROP TRIGGER object_log_leaves_with_its_run;
CREATE TRIGGER object_log_leaves_with_its_run BEFORE DELETE ON object_log
WHEN (OLD.parent IS NULL OR NOT EXISTS (SELECT 1 FROM leaving))
    AND NOT (OLD.object_type = 'schedule' AND EXISTS (SELECT 1 FROM objects o
        WHERE o.tenant = OLD.tenant AND o.workspace = OLD.workspace AND o.object_type = OLD.object_type
            AND o.id = OLD.id AND o.revision >= OLD.revision + 1000))
BEGIN SELECT RAISE(ABORT, 'the log of objects is written once'); END;
