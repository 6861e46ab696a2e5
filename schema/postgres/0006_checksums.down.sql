DROP VIEW objects;
DROP TABLE checksums;
ALTER TABLE clock DROP COLUMN written_at;
ALTER TABLE object_versions DROP COLUMN written_at, DROP COLUMN checksum;
CREATE VIEW objects AS
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
COMMENT ON VIEW objects IS 'the objects that exist now, for people';
COMMENT ON COLUMN objects.namespace IS 'the key up to its last ''/''';
COMMENT ON COLUMN objects.name IS 'the part of the key after its last ''/''';
COMMENT ON COLUMN objects.text IS 'the value, with escapes for bytes that are not UTF-8';
COMMENT ON COLUMN objects.key IS 'as stored: WHERE key = ''/registry/pods/default/nginx'' uses the index';
COMMENT ON COLUMN objects.value IS 'as stored';
