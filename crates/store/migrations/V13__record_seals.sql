-- Seals over the records of ended tasks: one chain for each tenant, made with a key that is in no database.
CREATE TABLE record_seals (
    tenant      TEXT    NOT NULL,
    n           INTEGER NOT NULL CHECK (n >= 1),
    at          INTEGER NOT NULL,
    complete_to INTEGER NOT NULL,
    first_end   INTEGER NOT NULL,
    last_end    INTEGER NOT NULL,
    count       INTEGER NOT NULL CHECK (count >= 1),
    root        BLOB    NOT NULL CHECK (length(root) = 32),
    chain       BLOB    NOT NULL CHECK (length(chain) = 32),
    seal        BLOB    NOT NULL CHECK (length(seal) = 40),
    -- The sealed records: 16 bytes of a task's id and 32 of a digest each.
    leaves      BLOB    NOT NULL,
    PRIMARY KEY (tenant, n)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER record_seals_no_update BEFORE UPDATE ON record_seals
BEGIN SELECT RAISE(ABORT, 'seals are written once'); END;
CREATE TRIGGER record_seals_no_delete BEFORE DELETE ON record_seals
BEGIN SELECT RAISE(ABORT, 'seals are written once'); END;
