-- The state of a task and the instant from which it may be claimed are two columns, and neither is derived from the
-- other. `due` was NULL exactly while a task ran, so that NULL meant a state. `claimable_at` is NULL for every task that
-- cannot be claimed, whatever its state. The indexes on `due` follow the new name.
ALTER TABLE tenure.live RENAME COLUMN due TO claimable_at;
ALTER TABLE tenure.live
    DROP CONSTRAINT live_check,
    ADD CONSTRAINT live_running_is_not_claimable CHECK (state <> 'running' OR claimable_at IS NULL),
    ADD CONSTRAINT live_waiting_is_claimable
        CHECK (state NOT IN ('queued', 'retry') OR claimable_at IS NOT NULL);

DROP INDEX tenure.live_leases;
CREATE INDEX live_leases ON tenure.live (lease_ms) WHERE state = 'running';
-- Tasks that neither run nor can be claimed, for the count of unfinished runs.
CREATE INDEX live_held ON tenure.live (tenant) WHERE claimable_at IS NULL AND state <> 'running';

-- The same functions and triggers, with texts that say what was refused.
CREATE OR REPLACE FUNCTION tenure.check_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM rows r WHERE (SELECT l.id FROM tenure.live l WHERE l.id = r.id) IS NOT NULL) THEN
        RAISE EXCEPTION 'a live task cannot be deleted' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION tenure.check_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM rows r WHERE (SELECT i.id FROM tenure.inputs i
            WHERE i.id = r.id AND i.tenant = r.tenant AND i.workspace = r.workspace) IS NULL) THEN
        RAISE EXCEPTION 'a row of % belongs to no submitted task of its scope', TG_TABLE_NAME
            USING ERRCODE = 'check_violation';
    END IF;
    IF EXISTS (SELECT 1 FROM rows r WHERE (SELECT l.id FROM tenure.live l WHERE l.id = r.id) IS NOT NULL
            AND (SELECT d.id FROM tenure.done d WHERE d.id = r.id) IS NOT NULL) THEN
        RAISE EXCEPTION 'a task cannot be both live and ended' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION tenure.check_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM tenure.live l WHERE l.id = OLD.task) THEN
        RAISE EXCEPTION 'the idempotency key of a live task cannot be used for another task'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

DROP TRIGGER live_keeps_its_name ON tenure.live;
CREATE TRIGGER live_keeps_its_name BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN ((NEW.id, NEW.tenant, NEW.workspace, NEW.queue, NEW.kind, NEW.priority, NEW.place)
        IS DISTINCT FROM (OLD.id, OLD.tenant, OLD.workspace, OLD.queue, OLD.kind, OLD.priority, OLD.place))
    EXECUTE FUNCTION tenure.refuse('the id, scope, queue, kind and priority of a task never change');

DROP TRIGGER live_tale_grows ON tenure.live;
CREATE TRIGGER live_tale_grows BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN (OLD.tale IS NOT NULL
        AND (NEW.tale IS NULL OR substr(NEW.tale, 1, length(OLD.tale)) <> OLD.tale))
    EXECUTE FUNCTION tenure.refuse('history is append-only');
