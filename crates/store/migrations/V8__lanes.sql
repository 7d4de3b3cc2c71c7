-- Lanes used to stay for ever. Those to which nothing was submitted that is remembered go here, once; from now on
-- each goes with the last of its tasks.
DELETE FROM lanes WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE inputs.lane = lanes.lane);
