-- Plans whose steps are stages of one task: a stage has its own kind, queue, lease and deadline.
--
-- The deadline of the stage; NULL for every task without stages.
ALTER TABLE live ADD COLUMN deadline INTEGER;

-- Only a task of a durable run passes from one kind or queue to another.
DROP TRIGGER live_keeps_its_id;
CREATE TRIGGER live_keeps_its_id BEFORE UPDATE OF row, id, priority ON live
BEGIN SELECT RAISE(ABORT, 'the id and priority of a task never change'); END;
CREATE TRIGGER live_keeps_its_lane BEFORE UPDATE OF lane ON live
WHEN NEW.run IS NULL
BEGIN SELECT RAISE(ABORT, 'the queue and kind of a task without stages never change'); END;
