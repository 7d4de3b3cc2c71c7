-- What the next version of a store might bring: a column and an index. Only tests apply it.
ALTER TABLE inputs ADD COLUMN planted TEXT;
CREATE INDEX inputs_planted ON inputs (planted) WHERE planted IS NOT NULL;
