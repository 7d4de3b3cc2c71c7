-- What a tenant may use, when each key was last used, and seals that show whether the audit was changed.

-- NULL means without that limit. A tenant without a row has none.
CREATE TABLE tenant_limits (
    tenant              TEXT    PRIMARY KEY,
    requests_per_second INTEGER CHECK (requests_per_second >= 1),
    burst               INTEGER CHECK (burst >= 1),
    unfinished_runs     INTEGER CHECK (unfinished_runs >= 0),
    changed_at          INTEGER NOT NULL
) STRICT;

-- Kept roughly: a key in use is written down once in an hour.
ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER;

-- The name of the key and its code over this entry and the seal before; entries from before have none.
ALTER TABLE audit ADD COLUMN seal BLOB CHECK (seal IS NULL OR length(seal) = 40);
