-- Every version of every object, one row each. Rows are inserted and, once compacted, removed; they never change.
CREATE TABLE object_versions (
    id               INTEGER PRIMARY KEY, -- resource_version and ordinal in one: rows lie in the order of writing
    resource_version INTEGER NOT NULL, -- revision of the transaction that wrote the row
    ordinal          INTEGER GENERATED ALWAYS AS (id & 1048575) VIRTUAL, -- position inside that transaction, from 0
    key              BLOB    NOT NULL, -- namespace and name, '/registry/pods/default/' || 'nginx', ordered bytewise
    deleted          INTEGER NOT NULL, -- 1 on a tombstone
    create_revision  INTEGER NOT NULL, -- revision at which the key last came to exist, 0 on a tombstone
    version          INTEGER NOT NULL, -- writes since then, 0 on a tombstone
    lease            INTEGER NOT NULL, -- 0 for none
    previous_version INTEGER NOT NULL, -- resource_version of the row that this one supersedes, 0 for none
    value            BLOB,             -- NULL on a tombstone; last, so that the rest can be read without it
    CHECK (resource_version = id >> 20)
);

-- Finds the newest row of each key at any revision. The columns after the first three are there so that lists of keys,
-- and the load of all keys at the start, need not read the table, whose rows lie in another order.
CREATE INDEX object_versions_namespace_name_resource_version_deleted
    ON object_versions (key, resource_version, deleted, create_revision, version, lease, previous_version);

-- A lease's keys; each is checked again against the newest row of its key.
CREATE INDEX object_versions_lease ON object_versions (lease) WHERE lease <> 0;

-- The one row that orders all writes.
CREATE TABLE clock (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    revision    INTEGER NOT NULL, -- of the last committed transaction
    compacted   INTEGER NOT NULL, -- oldest readable revision; 0 before the first compaction, -1 after one at 0
    incarnation INTEGER NOT NULL  -- raised when history was lost
);
INSERT INTO clock (id, revision, compacted, incarnation) VALUES (1, 1, 0, 1);

-- Granted leases. The one process that uses this file keeps their deadlines in memory; a restart gives every lease its
-- full TTL again, as etcd does.
CREATE TABLE leases (
    id  INTEGER PRIMARY KEY,
    ttl INTEGER NOT NULL -- seconds, as granted
);

CREATE TABLE alarms (
    member INTEGER NOT NULL,
    kind   INTEGER NOT NULL, -- etcd's AlarmType number
    PRIMARY KEY (member, kind)
) WITHOUT ROWID;

-- The store's settings, written once. Ids are random, positive and odd, so never 0.
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO settings (name, value) VALUES
    ('cluster_id', (random() & 9223372036854775807) | 1),
    ('member_id', (random() & 9223372036854775807) | 1);

-- The progress of the purge: for a compaction at target, the rows below next_row are done.
CREATE TABLE purge (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    target   INTEGER NOT NULL,
    next_row INTEGER NOT NULL -- object_versions.id
);
INSERT INTO purge (id, target, next_row) VALUES (1, 0, 0);

-- For people: the objects that exist now. The name is the part after the last '/', the namespace everything before it.
CREATE VIEW objects AS
SELECT rtrim(CAST(v.key AS TEXT), replace(CAST(v.key AS TEXT), '/', '')) AS namespace,
       substr(CAST(v.key AS TEXT),
              length(rtrim(CAST(v.key AS TEXT), replace(CAST(v.key AS TEXT), '/', ''))) + 1) AS name,
       v.resource_version, v.create_revision, v.version, v.lease, v.key, v.value
FROM (SELECT max(id) AS id, deleted FROM object_versions GROUP BY key HAVING deleted = 0) AS n
JOIN object_versions AS v ON v.id = n.id;
