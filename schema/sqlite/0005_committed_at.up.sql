-- For people: written_at as a time in UTC. It is computed when it is read, and takes no space.
ALTER TABLE object_versions ADD COLUMN committed_at TEXT GENERATED ALWAYS AS
    (strftime('%Y-%m-%dT%H:%M:%fZ', written_at / 1000.0, 'unixepoch')) VIRTUAL;

DROP VIEW objects;
-- For people: the objects that exist now. The name is the part after the last '/', the namespace everything before it.
CREATE VIEW objects AS
SELECT rtrim(CAST(v.key AS TEXT), replace(CAST(v.key AS TEXT), '/', '')) AS namespace,
       substr(CAST(v.key AS TEXT),
              length(rtrim(CAST(v.key AS TEXT), replace(CAST(v.key AS TEXT), '/', ''))) + 1) AS name,
       v.resource_version, v.create_revision, v.version, v.lease, v.key, v.value, v.committed_at
FROM (SELECT max(id) AS id, deleted FROM object_versions GROUP BY key HAVING deleted = 0) AS n
JOIN object_versions AS v ON v.id = n.id;
