-- What ended is deleted only as a whole, by retention, and the database itself says what that is:
-- a row may go while it stands in `leaving`, and only what ended at least a day before may stand
-- there. The table is empty whenever nobody is forgetting.

CREATE TABLE leaving (
    row INTEGER PRIMARY KEY,
    -- The store's time.
    at  INTEGER NOT NULL
) STRICT;

CREATE TRIGGER leaving_has_ended_long_ago BEFORE INSERT ON leaving
WHEN NOT EXISTS (SELECT 1 FROM done WHERE row = NEW.row AND completed_at <= NEW.at - 86400000)
BEGIN SELECT RAISE(ABORT, 'only what ended a day ago may leave'); END;
CREATE TRIGGER leaving_no_update BEFORE UPDATE ON leaving
BEGIN SELECT RAISE(ABORT, 'what leaves is not exchanged'); END;

DROP TRIGGER inputs_no_delete;
DROP TRIGGER done_no_delete;
DROP TRIGGER attempts_no_delete;
DROP TRIGGER history_no_delete;
DROP TRIGGER refused_no_delete;

CREATE TRIGGER inputs_no_delete BEFORE DELETE ON inputs
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.row)
BEGIN SELECT RAISE(ABORT, 'inputs are written once'); END;
CREATE TRIGGER done_no_delete BEFORE DELETE ON done
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.row)
BEGIN SELECT RAISE(ABORT, 'an ended task never changes'); END;
CREATE TRIGGER attempts_no_delete BEFORE DELETE ON attempts
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'closed attempts are written once'); END;
CREATE TRIGGER history_no_delete BEFORE DELETE ON history
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'history is written once'); END;
CREATE TRIGGER refused_no_delete BEFORE DELETE ON refused
WHEN NOT EXISTS (SELECT 1 FROM leaving WHERE row = OLD.task)
BEGIN SELECT RAISE(ABORT, 'refusals are written once'); END;
