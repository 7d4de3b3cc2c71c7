-- What runs used, by workspace and day. The use of a whole tenant is under the workspace '*'. Each committer adds to the row of its
-- own slot, so that commits do not wait for each other; a sum is over all slots.
CREATE TABLE tenure.spend (
    tenant      text     NOT NULL COLLATE "C",
    workspace   text     NOT NULL COLLATE "C",
    day         integer  NOT NULL CHECK (day >= 0),
    slot        smallint NOT NULL,
    cost_micros bigint   NOT NULL CHECK (cost_micros >= 0),
    tokens      bigint   NOT NULL CHECK (tokens >= 0),
    steps       bigint   NOT NULL CHECK (steps >= 0),
    tool_calls  bigint   NOT NULL CHECK (tool_calls >= 0),
    PRIMARY KEY (tenant, workspace, day, slot)
) WITH (fillfactor = 50);

-- Second line of defence: what no decision ever asks for.
CREATE TRIGGER spend_only_grows BEFORE UPDATE ON tenure.spend FOR EACH ROW
    WHEN (NEW.cost_micros < OLD.cost_micros OR NEW.tokens < OLD.tokens OR NEW.steps < OLD.steps OR NEW.tool_calls < OLD.tool_calls
        OR (NEW.tenant, NEW.workspace, NEW.day, NEW.slot) IS DISTINCT FROM (OLD.tenant, OLD.workspace, OLD.day, OLD.slot))
    EXECUTE FUNCTION tenure.refuse('what was used stays used');
CREATE TRIGGER spend_stays BEFORE DELETE OR TRUNCATE ON tenure.spend
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse('what was used stays used');

ALTER TABLE tenure.spend ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_scope ON tenure.spend USING (coalesce(tenant || chr(31) || workspace
    = ANY ((SELECT tenure.scopes())::text[]) OR '*' = ANY ((SELECT tenure.scopes())::text[]), false));
GRANT SELECT, INSERT, UPDATE (cost_micros, tokens, steps, tool_calls) ON tenure.spend TO tenure_rows;
