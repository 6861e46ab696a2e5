ALTER TABLE clock DROP COLUMN previous_commit_id;
ALTER TABLE clock DROP COLUMN commit_id;
