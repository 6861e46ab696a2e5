ALTER VIEW objects RENAME COLUMN committed_at TO written_at;
DROP FUNCTION committed_at(object_versions);
