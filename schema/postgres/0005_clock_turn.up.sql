-- While a snapshot is open (pg_dump), Postgres keeps every later version of the clock's row. The newest one is of the
-- last turn: a query in that order reads only the versions of one turn. A turn has several revisions, so that most
-- moves of the clock need no new index entry. No index is unique: each new entry would check all the others.
ALTER TABLE clock DROP CONSTRAINT clock_pkey;
ALTER TABLE clock ADD COLUMN turn bigint GENERATED ALWAYS AS (revision >> 6) STORED;
COMMENT ON COLUMN clock.turn IS 'leads to the newest version of the row';
ALTER TABLE clock REPLICA IDENTITY FULL;
-- The planner scans a table of a few pages completely, and keeps that plan while versions accumulate. These rows make
-- the table permanently some pages larger.
ALTER TABLE clock SET (vacuum_truncate = off);
INSERT INTO clock (id, revision, compacted, incarnation, batch, alarms, bytes)
    SELECT 1, -1, -1, 1, 0, 0, 0 FROM generate_series(1, 255);
DELETE FROM clock WHERE revision = -1;
CREATE INDEX clock_id_turn ON clock (id, turn);
-- There is one row, as no other can be inserted: the function refuses everything but an UPDATE.
CREATE TRIGGER clock_has_one_row BEFORE INSERT ON clock FOR EACH ROW
    EXECUTE FUNCTION suppress_redundant_updates_trigger();
-- A program of version 4 scans all versions, and finds the same row: settings.oldest_program does not change.
