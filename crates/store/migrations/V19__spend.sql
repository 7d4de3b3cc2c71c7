-- What runs used, by workspace and day. The use of a whole tenant is under the workspace '*'.
CREATE TABLE spend (
    tenant      TEXT    NOT NULL,
    workspace   TEXT    NOT NULL,
    day         INTEGER NOT NULL CHECK (day >= 0),
    cost_micros INTEGER NOT NULL CHECK (cost_micros >= 0),
    tokens      INTEGER NOT NULL CHECK (tokens >= 0),
    steps       INTEGER NOT NULL CHECK (steps >= 0),
    tool_calls  INTEGER NOT NULL CHECK (tool_calls >= 0),
    PRIMARY KEY (tenant, workspace, day)
) STRICT, WITHOUT ROWID;

-- What was used stays used.
CREATE TRIGGER spend_only_grows BEFORE UPDATE ON spend
WHEN NEW.cost_micros < OLD.cost_micros OR NEW.tokens < OLD.tokens OR NEW.steps < OLD.steps OR NEW.tool_calls < OLD.tool_calls
  OR NEW.tenant <> OLD.tenant OR NEW.workspace <> OLD.workspace OR NEW.day <> OLD.day
BEGIN SELECT RAISE(ABORT, 'what was used stays used'); END;
CREATE TRIGGER spend_no_delete BEFORE DELETE ON spend
BEGIN SELECT RAISE(ABORT, 'what was used stays used'); END;
