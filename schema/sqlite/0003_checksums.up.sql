-- Of all other columns, as package backend defines it; NULL in rows that were written before there were checksums. Both
-- columns lie behind the value, because adding them anywhere else would rewrite the table.
ALTER TABLE object_versions ADD COLUMN checksum INTEGER;
-- When the transaction was committed, in milliseconds since 1970. Times never decrease with the revision.
ALTER TABLE object_versions ADD COLUMN written_at INTEGER;

-- Rows up to the revision "since" were written without checksum and time. Checksums are added to them in the
-- background: those below next_row have one.
CREATE TABLE checksums (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    since    INTEGER NOT NULL,
    next_row INTEGER NOT NULL -- object_versions.id
);
INSERT INTO checksums (id, since, next_row) SELECT 1, revision, 0 FROM clock WHERE id = 1;

DROP VIEW objects;
-- For people: the objects that exist now. The name is the part after the last '/', the namespace everything before it.
CREATE VIEW objects AS
SELECT rtrim(CAST(v.key AS TEXT), replace(CAST(v.key AS TEXT), '/', '')) AS namespace,
       substr(CAST(v.key AS TEXT),
              length(rtrim(CAST(v.key AS TEXT), replace(CAST(v.key AS TEXT), '/', ''))) + 1) AS name,
       v.resource_version, v.create_revision, v.version, v.lease, v.key, v.value,
       strftime('%Y-%m-%dT%H:%M:%fZ', v.written_at / 1000.0, 'unixepoch') AS written_at
FROM (SELECT max(id) AS id, deleted FROM object_versions GROUP BY key HAVING deleted = 0) AS n
JOIN object_versions AS v ON v.id = n.id;
