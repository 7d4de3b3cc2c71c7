-- What the next version of a store might bring: a column and an index. Only tests apply it.
ALTER TABLE tenure.inputs ADD COLUMN planted text;
CREATE INDEX inputs_planted ON tenure.inputs (planted) WHERE planted IS NOT NULL;
