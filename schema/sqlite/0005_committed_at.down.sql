DROP VIEW objects;
ALTER TABLE object_versions DROP COLUMN committed_at;
CREATE VIEW objects AS
SELECT rtrim(CAST(v.key AS TEXT), replace(CAST(v.key AS TEXT), '/', '')) AS namespace,
       substr(CAST(v.key AS TEXT),
              length(rtrim(CAST(v.key AS TEXT), replace(CAST(v.key AS TEXT), '/', ''))) + 1) AS name,
       v.resource_version, v.create_revision, v.version, v.lease, v.key, v.value,
       strftime('%Y-%m-%dT%H:%M:%fZ', v.written_at / 1000.0, 'unixepoch') AS written_at
FROM (SELECT max(id) AS id, deleted FROM object_versions GROUP BY key HAVING deleted = 0) AS n
JOIN object_versions AS v ON v.id = n.id;
