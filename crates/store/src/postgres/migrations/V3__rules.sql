-- Which version of the rules decides: a batch that was decided by another one does not commit. It never goes
-- back. Before this step whoever worked on the store decided by the newest version it had.
ALTER TABLE tenure.meta ADD COLUMN rules integer NOT NULL DEFAULT 1 CHECK (rules >= 1);
UPDATE tenure.meta SET rules = coalesce((SELECT max(c.rules) FROM tenure.committers c), 1);
GRANT UPDATE (rules) ON tenure.meta TO tenure_rows;

CREATE TRIGGER rules_never_go_back BEFORE UPDATE ON tenure.meta FOR EACH ROW
    WHEN (NEW.rules < OLD.rules)
    EXECUTE FUNCTION tenure.refuse('the rules in force never go back');

-- A coordinator can decide by every version from `oldest_rules` to `rules`; one that joined before this step,
-- by `rules` alone.
ALTER TABLE tenure.committers ADD COLUMN oldest_rules integer;
