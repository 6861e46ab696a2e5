-- While a snapshot is open (pg_dump) every version of the clock's row that was written since is kept. The newest one is of the last turn:
-- whoever asks for it in that order looks at the versions of one turn. A turn has several revisions, so that most moves of the clock
-- need no new entry of the index. Nothing is unique: that would have each entry look at all the others.
ALTER TABLE clock DROP CONSTRAINT clock_pkey;
ALTER TABLE clock ADD COLUMN turn bigint GENERATED ALWAYS AS (revision >> 6) STORED;
COMMENT ON COLUMN clock.turn IS 'leads to the newest version of the row';
ALTER TABLE clock REPLICA IDENTITY FULL;
-- Of a table of a few pages the planner reads all, and keeps the plan while versions gather. These rows make it some pages larger for good.
ALTER TABLE clock SET (vacuum_truncate = off);
INSERT INTO clock (id, revision, compacted, incarnation, batch, alarms, bytes) SELECT 1, -1, -1, 1, 0, 0, 0 FROM generate_series(1, 255);
DELETE FROM clock WHERE revision = -1;
CREATE INDEX clock_id_turn ON clock (id, turn);
-- There is one row, as nobody can insert another: the function refuses whatever is no UPDATE.
CREATE TRIGGER clock_has_one_row BEFORE INSERT ON clock FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
-- A program of version 4 goes through all versions as before, and finds the same row: settings.oldest_program stays as it is.
