DROP TRIGGER clock_has_one_row ON clock;
DROP INDEX clock_id_turn;
ALTER TABLE clock DROP COLUMN turn;
ALTER TABLE clock ADD PRIMARY KEY (id);
ALTER TABLE clock REPLICA IDENTITY DEFAULT;
ALTER TABLE clock RESET (vacuum_truncate);
