-- Writers lock the clock before anything else. So does this migration, as later statements of the transaction need it,
-- too.
LOCK TABLE clock IN ACCESS EXCLUSIVE MODE;
-- A key of more than 2,600 bytes does not fit an entry of an index. In its rows the column key has the first 2,600
-- bytes and the SHA-256 of the key, and long_key has the key itself. Keys of up to 2,600 bytes do not change, and no
-- index is rebuilt.
ALTER TABLE object_versions ADD COLUMN long_key bytea;
ALTER TABLE object_versions DROP CONSTRAINT object_versions_key_check;
-- NOT VALID avoids a scan of all rows: existing ones obey a stricter rule.
ALTER TABLE object_versions ADD CONSTRAINT object_versions_key_check CHECK (
    octet_length(key) <= 2600 AND long_key IS NULL OR
    octet_length(key) = 2632 AND octet_length(long_key) > 2600 AND
        key = substr(long_key, 1, 2600) || sha256(long_key)
) NOT VALID;
COMMENT ON COLUMN object_versions.key IS
    'namespace and name in one, ''/registry/pods/default/'' || ''nginx'', ordered bytewise; see long_key';
COMMENT ON COLUMN object_versions.long_key IS
    'a key of more than 2,600 bytes, of which key then has the first 2,600 bytes and the SHA-256';

-- Programs of version 3 would take the substitute of a long key for the key itself. As long as one of them runs, no
-- long key is written; the first one raises settings.oldest_program to 4.
ALTER TABLE members ADD COLUMN program integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN members.program IS 'newest version of the schema that the replica knows, 0 for up to 3';

CREATE OR REPLACE VIEW objects AS
SELECT regexp_replace(k.text, '[^/]*$', '') AS namespace, regexp_replace(k.text, '^.*/', '') AS name,
       n.resource_version, n.create_revision, n.version, n.lease, t.text, COALESCE(v.long_key, v.key) AS key, v.value
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
