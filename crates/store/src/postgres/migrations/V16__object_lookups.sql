-- A lookup by key must not read the index by status: in a table without statistics both cost the same by estimate, and that one
-- reads every object of the type. An index with a predicate is used only where the query implies it, as a list of one status does.
DROP INDEX tenure.objects_by_status;
CREATE INDEX objects_by_status ON tenure.objects (tenant, workspace, object_type, status, id) WHERE status IS NOT NULL;
