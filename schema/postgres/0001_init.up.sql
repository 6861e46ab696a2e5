-- Every version of every object, one row each. Rows are inserted and, once compacted, removed; they never change.
CREATE TABLE object_versions (
    resource_version bigint  NOT NULL,
    ordinal          integer NOT NULL,
    key              bytea   NOT NULL CHECK (octet_length(key) <= 2600),
    deleted          boolean NOT NULL,
    create_revision  bigint  NOT NULL,
    version          bigint  NOT NULL,
    lease            bigint  NOT NULL,
    previous_version bigint  NOT NULL,
    batch            bigint  NOT NULL,
    value            bytea   CHECK ((value IS NULL) = deleted),
    PRIMARY KEY (resource_version, ordinal)
) WITH (
    -- Lists and counts need only the index where vacuum has marked the table's pages since the last write to them.
    autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);
-- Values are not compressed: they are small or protobuf.
ALTER TABLE object_versions ALTER COLUMN value SET STORAGE EXTERNAL;

COMMENT ON TABLE object_versions IS 'every version of every object; see the view objects for those that exist now';
COMMENT ON COLUMN object_versions.resource_version IS 'revision of the transaction that wrote the row; no gaps';
COMMENT ON COLUMN object_versions.ordinal IS
    'position inside that transaction, from 0; of a key''s rows at one revision the last is the newest';
COMMENT ON COLUMN object_versions.key IS
    'namespace and name in one, ''/registry/pods/default/'' || ''nginx'', ordered bytewise';
COMMENT ON COLUMN object_versions.deleted IS 'true on a tombstone';
COMMENT ON COLUMN object_versions.create_revision IS 'revision at which the key last came to exist, 0 on a tombstone';
COMMENT ON COLUMN object_versions.version IS 'writes since then, 0 on a tombstone';
COMMENT ON COLUMN object_versions.lease IS '0 for none';
COMMENT ON COLUMN object_versions.previous_version IS
    'resource_version of the row that this one supersedes, 0 for none';
COMMENT ON COLUMN object_versions.batch IS
    'random number of the commit that wrote the row; after a loss of history it distinguishes rows of one revision';
COMMENT ON COLUMN object_versions.value IS 'NULL on a tombstone';

-- Finds the newest row of each key at any revision: the first of the key's entries that is not above it. The ordinal
-- comes before deleted because one transaction may delete a key and put it again. With the included columns, lists of
-- keys need not read the table.
CREATE INDEX object_versions_namespace_name_resource_version_deleted
    ON object_versions (key, resource_version DESC, ordinal DESC, deleted)
    INCLUDE (create_revision, version, lease, previous_version);

-- A lease's keys; each is checked again against the newest row of its key.
CREATE INDEX object_versions_lease ON object_versions (lease, key) WHERE lease <> 0;

-- The one row that orders all writes. Every commit updates it: the free space in its page keeps the table from growing.
CREATE TABLE clock (
    id          integer PRIMARY KEY CHECK (id = 1),
    revision    bigint NOT NULL,
    compacted   bigint NOT NULL CHECK (compacted <= revision),
    incarnation bigint NOT NULL,
    batch       bigint NOT NULL,
    alarms      bigint NOT NULL,
    bytes       bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO clock (id, revision, compacted, incarnation, batch, alarms, bytes) VALUES (1, 1, 0, 1, 0, 0, 0);
COMMENT ON TABLE clock IS 'the one row that orders all writes; a writer holds its lock';
COMMENT ON COLUMN clock.revision IS 'of the last committed transaction';
COMMENT ON COLUMN clock.compacted IS
    'oldest revision that can still be read; 0 before the first compaction, -1 after one at 0';
COMMENT ON COLUMN clock.incarnation IS 'raised when history was lost';
COMMENT ON COLUMN clock.batch IS 'random number of the last commit that moved the revision; see object_versions.batch';
COMMENT ON COLUMN clock.alarms IS 'increases with every change of the alarms';
COMMENT ON COLUMN clock.bytes IS 'approximate size of all rows ever written; see purge.bytes';

CREATE TABLE leases (
    id         bigint PRIMARY KEY,
    ttl        bigint NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX leases_expires_at ON leases (expires_at);
COMMENT ON TABLE leases IS 'granted and not revoked; object_versions.lease names them';
COMMENT ON COLUMN leases.ttl IS 'seconds, as granted';
COMMENT ON COLUMN leases.expires_at IS 'by this server''s clock';

CREATE TABLE alarms (
    member bigint  NOT NULL,
    kind   integer NOT NULL,
    PRIMARY KEY (member, kind)
);
COMMENT ON TABLE alarms IS 'raised by members, for lack of space or for damage';
COMMENT ON COLUMN alarms.kind IS 'etcd''s AlarmType number';

CREATE TABLE settings (
    name  text PRIMARY KEY,
    value bigint NOT NULL
);
COMMENT ON TABLE settings IS 'the store''s settings, written once';
-- Programs that know the schema up to this version can still run. A migration with which they cannot run raises it.
INSERT INTO settings (name, value) VALUES ('oldest_program', 1);

-- The progress of the purge.
CREATE TABLE purge (
    id           integer PRIMARY KEY CHECK (id = 1),
    target       bigint  NOT NULL,
    next_version bigint  NOT NULL,
    next_ordinal integer NOT NULL,
    bytes        bigint  NOT NULL
) WITH (fillfactor = 10);
INSERT INTO purge (id, target, next_version, next_ordinal, bytes) VALUES (1, 0, 0, 0, 0);
COMMENT ON TABLE purge IS 'progress of the purge: for a compaction at target, the rows before next are done';
COMMENT ON COLUMN purge.bytes IS 'approximate size of the removed rows: clock.bytes minus this is in use';

CREATE TABLE holds (
    id         bigint PRIMARY KEY,
    revision   bigint NOT NULL,
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE holds IS 'long reads: rows superseded above their revision are not removed';

CREATE TABLE members (
    id          bigint PRIMARY KEY,
    name        text   NOT NULL,
    client_urls text[] NOT NULL,
    seen_at     timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE members IS 'the live replicas';

CREATE TABLE maintenance (
    id       integer PRIMARY KEY CHECK (id = 1),
    holder   bigint NOT NULL,
    heard_at timestamptz NOT NULL
) WITH (fillfactor = 10);
INSERT INTO maintenance (id, holder, heard_at) VALUES (1, 0, clock_timestamp());
COMMENT ON TABLE maintenance IS 'which replica does the maintenance for all';
COMMENT ON COLUMN maintenance.holder IS 'member that compacts and expires leases, 0 for none';
COMMENT ON COLUMN maintenance.heard_at IS 'last heartbeat of any member';

-- For people: the objects that exist now. The name is the part after the last '/', the namespace everything before it.
-- UTF-8 is shown as text, other bytes with escapes; no function distinguishes the two without an error, hence the
-- expressions.
CREATE VIEW objects AS
SELECT regexp_replace(k.text, '[^/]*$', '') AS namespace, regexp_replace(k.text, '^.*/', '') AS name,
       n.resource_version, n.create_revision, n.version, n.lease, t.text, n.key, v.value
FROM (
    SELECT DISTINCT ON (key) key, resource_version, ordinal, deleted, create_revision, version, lease
    FROM object_versions ORDER BY key, resource_version DESC, ordinal DESC
) AS n
JOIN object_versions AS v USING (resource_version, ordinal)
CROSS JOIN LATERAL (SELECT CASE WHEN getdatabaseencoding() = 'UTF8' AND encode(n.key, 'hex') ~
    '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]'
    '|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f][89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$'
    THEN convert_from(n.key, 'UTF8') ELSE encode(n.key, 'escape') END AS text) AS k
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
