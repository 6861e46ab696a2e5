-- v.committed_at reads like a column of object_versions AS v. A real column would rewrite the table.
CREATE FUNCTION committed_at(v object_versions) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT to_timestamp(v.written_at / 1000.0)';
COMMENT ON FUNCTION committed_at(object_versions) IS 'when the version was committed, NULL if that is not known';
ALTER VIEW objects RENAME COLUMN written_at TO committed_at;
-- A program of version 7 reads neither: settings.oldest_program does not change.
