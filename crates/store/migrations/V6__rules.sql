-- Which version of the rules decides. Whoever opens the file has it alone, and brings it to the newest it knows.
ALTER TABLE meta ADD COLUMN rules INTEGER NOT NULL DEFAULT 1 CHECK (rules >= 1);

CREATE TRIGGER rules_never_go_back BEFORE UPDATE OF rules ON meta WHEN NEW.rules < OLD.rules
BEGIN
    SELECT RAISE(ABORT, 'the rules in force never go back');
END;
