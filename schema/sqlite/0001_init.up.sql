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
    value            BLOB,             -- NULL on a tombstone; after the rest, which can be read without it
    -- Of all other columns, as package backend defines it. To read it, SQLite reads and verifies all pages of the value.
    checksum         INTEGER NOT NULL,
    -- When the transaction was committed, in milliseconds since 1970. Times never decrease with the revision.
    written_at       INTEGER NOT NULL,
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
    incarnation INTEGER NOT NULL, -- raised when history was lost
    -- A random number for the last transaction, and that of the one before. The write-ahead log contains this row with
    -- each transaction, so it shows to which state of the file the log belongs.
    commit_id          INTEGER NOT NULL,
    previous_commit_id INTEGER NOT NULL
);
INSERT INTO clock (id, revision, compacted, incarnation, commit_id, previous_commit_id) VALUES (1, 1, 0, 1, 0, 0);

-- Granted leases. The one process that uses this file keeps their deadlines in memory; a restart gives every lease its
-- full TTL again, as etcd does.
CREATE TABLE leases (
    id  INTEGER PRIMARY KEY,
    ttl INTEGER NOT NULL, -- seconds, as granted
    -- The remaining time of an imported lease, in seconds, until the first server opens the file; NULL: its full TTL.
    remaining INTEGER
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

-- The versions of sqlstore that have served this database. The last one has the greatest id.
CREATE TABLE programs (
    id         INTEGER PRIMARY KEY,
    version    TEXT    NOT NULL,
    started_at INTEGER NOT NULL -- seconds since 1970, of its first start after another version
);

-- The progress of the purge: for a compaction at target, the rows below next_row are done.
CREATE TABLE purge (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    target   INTEGER NOT NULL,
    next_row INTEGER NOT NULL -- object_versions.id
);
INSERT INTO purge (id, target, next_row) VALUES (1, 0, 0);

-- Secrets that seal the continue tokens of lists. The key with the greatest id seals; every key opens its own tokens.
CREATE TABLE token_keys (
    id      INTEGER PRIMARY KEY,
    key     BLOB    NOT NULL, -- 32 random bytes
    made_at INTEGER NOT NULL  -- seconds since 1970
);

-- Who may do what. The revision counts the changes.
CREATE TABLE auth (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    enabled     INTEGER NOT NULL,
    revision    INTEGER NOT NULL,
    tokens_from INTEGER NOT NULL -- revision at which it was last disabled: tokens of earlier ones have ended
);
INSERT INTO auth (id, enabled, revision, tokens_from) VALUES (1, 0, 1, 0);

CREATE TABLE auth_users (
    name        TEXT    PRIMARY KEY,
    password    BLOB, -- its bcrypt hash
    no_password INTEGER NOT NULL,
    tokens_from INTEGER NOT NULL -- revision of the last change of the password
) WITHOUT ROWID;

CREATE TABLE auth_user_roles (
    user_name TEXT NOT NULL,
    role_name TEXT NOT NULL, -- the role root need not exist
    PRIMARY KEY (user_name, role_name)
) WITHOUT ROWID;

CREATE TABLE auth_roles (
    name TEXT PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE auth_permissions (
    role_name TEXT    NOT NULL,
    place     INTEGER NOT NULL, -- in the role's list
    kind      INTEGER NOT NULL, -- etcd's Permission.Type number: 0 read, 1 write, 2 both
    key       BLOB    NOT NULL,
    range_end BLOB    NOT NULL, -- empty: only the key; one NUL byte: all keys from it on
    PRIMARY KEY (role_name, place)
) WITHOUT ROWID;

-- Tokens of users who have given their password.
CREATE TABLE auth_tokens (
    sum        BLOB    PRIMARY KEY, -- SHA-256 of the token
    user_name  TEXT    NOT NULL,
    revision   INTEGER NOT NULL, -- at which the password was checked
    ttl        INTEGER NOT NULL, -- without use, in milliseconds
    expires_at INTEGER NOT NULL  -- in milliseconds since 1970
) WITHOUT ROWID;

-- For people: every version, with text in place of bytes, and written_at as a time in UTC, in SQLite's own format. The
-- name is the part of the key after the last '/', the namespace everything before it. On Postgres both views have the
-- same columns, but no id.
CREATE VIEW object_history AS
SELECT rtrim(k.key_text, replace(k.key_text, '/', '')) AS namespace,
       substr(k.key_text, length(rtrim(k.key_text, replace(k.key_text, '/', ''))) + 1) AS name, k.key_text,
       v.resource_version, v.ordinal, v.deleted, v.create_revision, v.version, v.lease,
       length(v.key) + coalesce(length(v.value), 0) AS bytes, CAST(v.value AS TEXT) AS text, v.key, v.value,
       datetime(v.written_at / 1000, 'unixepoch') || '.' || substr(v.written_at, -3) AS committed_at, v.id
FROM object_versions AS v JOIN (SELECT id, CAST(key AS TEXT) AS key_text FROM object_versions) AS k ON k.id = v.id;

-- For people: the objects that exist now.
CREATE VIEW objects AS
SELECT v.namespace, v.name, v.key_text, v.resource_version, v.create_revision, v.version, v.lease, v.bytes, v.text,
       v.key, v.value, v.committed_at
FROM (SELECT max(id) AS id, deleted FROM object_versions GROUP BY key HAVING deleted = 0) AS n
JOIN object_history AS v ON v.id = n.id;

-- For people: who may do what.
CREATE VIEW auth_rights AS
SELECT u.name AS user_name, r.role_name,
       CASE p.kind WHEN 0 THEN 'read' WHEN 1 THEN 'write' WHEN 2 THEN 'readwrite' END AS kind,
       CAST(p.key AS TEXT) AS key, CAST(p.range_end AS TEXT) AS range_end
FROM auth_users AS u LEFT JOIN auth_user_roles AS r ON r.user_name = u.name
LEFT JOIN auth_permissions AS p ON p.role_name = r.role_name
ORDER BY u.name, r.role_name, p.place;
