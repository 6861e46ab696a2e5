-- A random number for the last transaction, and that of the one before. The write-ahead log contains this row with each
-- transaction, so it shows to which state of the file the log belongs.
ALTER TABLE clock ADD COLUMN commit_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE clock ADD COLUMN previous_commit_id INTEGER NOT NULL DEFAULT 0;
