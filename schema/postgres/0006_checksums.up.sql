-- Writers lock the clock before anything else. So does this migration, as later statements of the transaction need it,
-- too.
LOCK TABLE clock IN ACCESS EXCLUSIVE MODE;
-- Without a default, columns are added without touching a row.
ALTER TABLE object_versions ADD COLUMN checksum bigint, ADD COLUMN written_at bigint;
COMMENT ON COLUMN object_versions.checksum IS
    'of all other columns but batch, as package backend defines it; NULL in rows that a program of version 5 wrote';
COMMENT ON COLUMN object_versions.written_at IS
    'when the row was committed, in milliseconds since 1970 by this server''s clock; never decreases with the revision';
ALTER TABLE clock ADD COLUMN written_at bigint;
COMMENT ON COLUMN clock.written_at IS 'object_versions.written_at of the last commit that has one';

CREATE TABLE checksums (
    id           integer PRIMARY KEY CHECK (id = 1),
    since        bigint  NOT NULL,
    next_version bigint  NOT NULL,
    next_ordinal integer NOT NULL
) WITH (fillfactor = 10);
INSERT INTO checksums (id, since, next_version, next_ordinal)
    SELECT 1, revision, 0, 0 FROM clock ORDER BY turn DESC LIMIT 1;
COMMENT ON TABLE checksums IS
    'progress of adding checksums to rows that were written without one: those before next have one';
COMMENT ON COLUMN checksums.since IS 'the revision at which checksums and times began';

CREATE OR REPLACE VIEW objects AS
SELECT regexp_replace(k.text, '[^/]*$', '') AS namespace, regexp_replace(k.text, '^.*/', '') AS name,
       n.resource_version, n.create_revision, n.version, n.lease, t.text, COALESCE(v.long_key, v.key) AS key, v.value,
       to_timestamp(v.written_at / 1000.0) AS written_at
FROM (
    SELECT DISTINCT ON (key) key, resource_version, ordinal, deleted, create_revision, version, lease
    FROM object_versions ORDER BY key, resource_version DESC, ordinal DESC
) AS n
JOIN object_versions AS v USING (resource_version, ordinal)
CROSS JOIN LATERAL (SELECT CASE WHEN getdatabaseencoding() = 'UTF8' AND encode(COALESCE(v.long_key, v.key), 'hex') ~
    '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]'
    '|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f][89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$'
    THEN convert_from(COALESCE(v.long_key, v.key), 'UTF8')
    ELSE encode(COALESCE(v.long_key, v.key), 'escape') END AS text) AS k
CROSS JOIN LATERAL (SELECT CASE WHEN getdatabaseencoding() = 'UTF8' AND encode(v.value, 'hex') ~
    '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]'
    '|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f][89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$'
    THEN convert_from(v.value, 'UTF8') ELSE encode(v.value, 'escape') END AS text) AS t
WHERE NOT n.deleted;
COMMENT ON COLUMN objects.written_at IS 'when this version was committed, NULL if that is not known';
-- A program of version 5 does not read the columns, and writes rows without them: settings.oldest_program does not
-- change.
