-- Plans whose steps are stages of one task: a stage has its own kind, queue, lease and deadline.

-- The deadline of the stage; NULL for every task without stages.
ALTER TABLE tenure.live ADD COLUMN deadline bigint;

-- Second line of defence: only a task of a durable run passes from one kind or queue to another, and is queued again when it does.
DROP TRIGGER live_changes_by_the_rules ON tenure.live;
CREATE TRIGGER live_changes_by_the_rules BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND NOT (NEW.state = 'running'
        OR (NEW.state IN ('retry', 'waiting') AND (OLD.state = 'running' OR NEW.attempt > OLD.attempt))
        OR (NEW.state = 'waiting' AND OLD.state = 'retry')
        OR (NEW.state IN ('queued', 'waiting') AND NEW.run IS NOT NULL)))
    EXECUTE FUNCTION tenure.refuse('this change of state is not allowed');
DROP TRIGGER live_keeps_its_name ON tenure.live;
CREATE TRIGGER live_keeps_its_name BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN ((NEW.id, NEW.tenant, NEW.workspace, NEW.priority, NEW.place, NEW.parent)
        IS DISTINCT FROM (OLD.id, OLD.tenant, OLD.workspace, OLD.priority, OLD.place, OLD.parent)
        OR (NEW.run IS NULL AND (NEW.queue, NEW.kind) IS DISTINCT FROM (OLD.queue, OLD.kind)))
    EXECUTE FUNCTION tenure.refuse('the id, scope, queue, kind, priority and parent of a task never change');
