-- Every version of every object, one row each. Rows are inserted and, once compacted, removed; they never change.
CREATE TABLE object_versions (
    resource_version bigint  NOT NULL,
    ordinal          integer NOT NULL,
    key              bytea   NOT NULL,
    deleted          boolean NOT NULL,
    create_revision  bigint  NOT NULL,
    version          bigint  NOT NULL,
    lease            bigint  NOT NULL,
    previous_version bigint  NOT NULL,
    batch            bigint  NOT NULL,
    value            bytea   CHECK ((value IS NULL) = deleted),
    long_key         bytea,
    checksum         bigint  NOT NULL,
    written_at       bigint  NOT NULL,
    PRIMARY KEY (resource_version, ordinal),
    -- A key of more than 2,600 bytes does not fit an entry of an index.
    CONSTRAINT object_versions_key_check CHECK (
        octet_length(key) <= 2600 AND long_key IS NULL OR
        octet_length(key) = 2632 AND octet_length(long_key) > 2600 AND
            key = substr(long_key, 1, 2600) || sha256(long_key)
    )
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
    'namespace and name in one, ''/registry/pods/default/'' || ''nginx'', ordered bytewise; see long_key';
COMMENT ON COLUMN object_versions.deleted IS 'true on a tombstone';
COMMENT ON COLUMN object_versions.create_revision IS 'revision at which the key last came to exist, 0 on a tombstone';
COMMENT ON COLUMN object_versions.version IS 'writes since then, 0 on a tombstone';
COMMENT ON COLUMN object_versions.lease IS '0 for none';
COMMENT ON COLUMN object_versions.previous_version IS
    'resource_version of the row that this one supersedes, 0 for none';
COMMENT ON COLUMN object_versions.batch IS
    'random number of the commit that wrote the row; after a loss of history it distinguishes rows of one revision';
COMMENT ON COLUMN object_versions.value IS 'NULL on a tombstone';
COMMENT ON COLUMN object_versions.long_key IS
    'a key of more than 2,600 bytes, of which key then has the first 2,600 bytes and the SHA-256';
COMMENT ON COLUMN object_versions.checksum IS
    'of all other columns but batch, as package backend defines it';
COMMENT ON COLUMN object_versions.written_at IS
    'when the row was committed, in milliseconds since 1970 by this server''s clock; never decreases with the revision';
-- v.committed_at reads like a column of object_versions AS v, and takes no space.
CREATE FUNCTION committed_at(v object_versions) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT to_timestamp(v.written_at / 1000.0)';
COMMENT ON FUNCTION committed_at(object_versions) IS 'when the version was committed';

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
    id          integer NOT NULL CHECK (id = 1),
    revision    bigint NOT NULL,
    compacted   bigint NOT NULL CHECK (compacted <= revision),
    incarnation bigint NOT NULL,
    batch       bigint NOT NULL,
    alarms      bigint NOT NULL,
    bytes       bigint NOT NULL,
    turn        bigint GENERATED ALWAYS AS (revision >> 6) STORED,
    written_at  bigint
) WITH (fillfactor = 10, vacuum_truncate = off);
ALTER TABLE clock REPLICA IDENTITY FULL;
INSERT INTO clock (id, revision, compacted, incarnation, batch, alarms, bytes) VALUES (1, 1, 0, 1, 0, 0, 0);
-- The planner scans a table of a few pages completely, and keeps that plan while versions accumulate. These rows make
-- the table permanently some pages larger.
INSERT INTO clock (id, revision, compacted, incarnation, batch, alarms, bytes)
    SELECT 1, -1, -1, 1, 0, 0, 0 FROM generate_series(1, 255);
DELETE FROM clock WHERE revision = -1;
-- While a snapshot is open (pg_dump), Postgres keeps every later version of the row. The newest one is of the last turn:
-- a query in that order reads only the versions of one turn. A turn has several revisions, so that most moves of the
-- clock need no new index entry. No index is unique: each new entry would check all the others.
CREATE INDEX clock_id_turn ON clock (id, turn);
-- There is one row, as no other can be inserted: the function refuses everything but an UPDATE.
CREATE TRIGGER clock_has_one_row BEFORE INSERT ON clock FOR EACH ROW
    EXECUTE FUNCTION suppress_redundant_updates_trigger();
COMMENT ON TABLE clock IS 'the one row that orders all writes; a writer holds its lock';
COMMENT ON COLUMN clock.revision IS 'of the last committed transaction';
COMMENT ON COLUMN clock.compacted IS
    'oldest revision that can still be read; 0 before the first compaction, -1 after one at 0';
COMMENT ON COLUMN clock.incarnation IS 'raised when history was lost';
COMMENT ON COLUMN clock.batch IS 'random number of the last commit that moved the revision; see object_versions.batch';
COMMENT ON COLUMN clock.alarms IS 'increases with every change of the alarms, users or roles';
COMMENT ON COLUMN clock.bytes IS 'approximate size of all rows ever written; see purge.bytes';
COMMENT ON COLUMN clock.turn IS 'leads to the newest version of the row';
COMMENT ON COLUMN clock.written_at IS 'object_versions.written_at of the last commit, NULL before the first';

CREATE TABLE leases (
    id         bigint PRIMARY KEY,
    ttl        bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    due_at     timestamptz NOT NULL
) WITH (fillfactor = 50);
-- A renewal that changes no indexed column needs no new index entry (a heap-only tuple). So maintenance finds leases by
-- a time that lags behind: it moves due_at to expires_at when it is reached.
CREATE INDEX leases_due_at ON leases (due_at);
COMMENT ON TABLE leases IS 'granted and not revoked; object_versions.lease names them';
COMMENT ON COLUMN leases.ttl IS 'seconds, as granted';
COMMENT ON COLUMN leases.expires_at IS 'by this server''s clock';
COMMENT ON COLUMN leases.due_at IS
    'when maintenance looks at the lease next, not after expires_at; renewals do not move it';

CREATE TABLE lease_extension (
    id         integer PRIMARY KEY CHECK (id = 1),
    next_lease bigint
) WITH (fillfactor = 10);
INSERT INTO lease_extension (id, next_lease) VALUES (1, NULL);
COMMENT ON TABLE lease_extension IS
    'all leases get their full TTL again, in parts, after a period in which no client could renew';
COMMENT ON COLUMN lease_extension.next_lease IS
    'leases from this id on do not expire before their extension; NULL when all are extended';

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

CREATE TABLE programs (
    id         bigint PRIMARY KEY,
    version    text        NOT NULL,
    started_at timestamptz NOT NULL
);
COMMENT ON TABLE programs IS 'the versions of sqlstore that have served this database; the last has the greatest id';
COMMENT ON COLUMN programs.started_at IS 'when the version was first started after another one';

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

CREATE TABLE token_keys (
    id      bigint PRIMARY KEY,
    key     bytea  NOT NULL,
    made_at timestamptz NOT NULL
);
COMMENT ON TABLE token_keys IS 'secrets that seal the continue tokens of lists, for all replicas';
COMMENT ON COLUMN token_keys.id IS 'the key with the greatest id seals; every key opens its own tokens';
COMMENT ON COLUMN token_keys.key IS '32 random bytes';
COMMENT ON COLUMN token_keys.made_at IS 'by this server''s clock';

-- Names are bytes: a text cannot hold all that etcd allows, and not in every encoding of the database.
CREATE TABLE auth (
    id          integer PRIMARY KEY CHECK (id = 1),
    enabled     boolean NOT NULL,
    revision    bigint  NOT NULL,
    tokens_from bigint  NOT NULL
) WITH (fillfactor = 10);
INSERT INTO auth (id, enabled, revision, tokens_from) VALUES (1, false, 1, 0);
COMMENT ON TABLE auth IS 'whether callers need rights; see the view auth_rights';
COMMENT ON COLUMN auth.revision IS 'counts the changes of users and roles';
COMMENT ON COLUMN auth.tokens_from IS 'revision at which it was last disabled: tokens of earlier ones have ended';

CREATE TABLE auth_users (
    name        bytea   NOT NULL,
    password    bytea,
    no_password boolean NOT NULL,
    tokens_from bigint  NOT NULL
);
-- Of the hash, because an index entry cannot hold a long name.
CREATE UNIQUE INDEX auth_users_name ON auth_users (sha256(name));
ALTER TABLE auth_users REPLICA IDENTITY FULL;
COMMENT ON COLUMN auth_users.password IS 'its bcrypt hash';
COMMENT ON COLUMN auth_users.tokens_from IS
    'revision of the last change of the password: tokens of earlier ones have ended';

CREATE TABLE auth_user_roles (
    user_name bytea NOT NULL,
    role_name bytea NOT NULL
);
CREATE UNIQUE INDEX auth_user_roles_names ON auth_user_roles (sha256(user_name), sha256(role_name));
ALTER TABLE auth_user_roles REPLICA IDENTITY FULL;
COMMENT ON COLUMN auth_user_roles.role_name IS 'the role root need not exist';

CREATE TABLE auth_roles (
    name bytea NOT NULL
);
CREATE UNIQUE INDEX auth_roles_name ON auth_roles (sha256(name));
ALTER TABLE auth_roles REPLICA IDENTITY FULL;

CREATE TABLE auth_permissions (
    role_name bytea   NOT NULL,
    place     integer NOT NULL,
    kind      integer NOT NULL,
    key       bytea   NOT NULL,
    range_end bytea   NOT NULL
);
CREATE UNIQUE INDEX auth_permissions_place ON auth_permissions (sha256(role_name), place);
ALTER TABLE auth_permissions REPLICA IDENTITY FULL;
COMMENT ON COLUMN auth_permissions.place IS 'in the role''s list';
COMMENT ON COLUMN auth_permissions.kind IS 'etcd''s Permission.Type number: 0 read, 1 write, 2 both';
COMMENT ON COLUMN auth_permissions.range_end IS 'empty: only the key; one NUL byte: all keys from it on';

CREATE TABLE auth_tokens (
    sum        bytea  PRIMARY KEY,
    user_name  bytea  NOT NULL,
    revision   bigint NOT NULL,
    ttl        bigint NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE auth_tokens IS 'tokens of users who have given their password';
COMMENT ON COLUMN auth_tokens.sum IS 'SHA-256 of the token';
COMMENT ON COLUMN auth_tokens.revision IS 'at which the password was checked';
COMMENT ON COLUMN auth_tokens.ttl IS 'without use, in milliseconds';
COMMENT ON COLUMN auth_tokens.expires_at IS 'by this server''s clock';

-- UTF-8 as text, other bytes with escapes; no function distinguishes the two without an error, hence the expression.
CREATE FUNCTION text_of(bytes bytea) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN getdatabaseencoding() = 'UTF8' AND encode(bytes, 'hex') ~
        '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]'
        '|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f][89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$'
        THEN convert_from(bytes, 'UTF8') ELSE encode(bytes, 'escape') END
$$;
COMMENT ON FUNCTION text_of(bytea) IS 'bytes for people: with escapes where they are not UTF-8';

-- For people: every version, with text in place of bytes. On SQLite both views have the same columns.
CREATE VIEW object_history AS
SELECT regexp_replace(k.key_text, '[^/]*$', '') AS namespace, regexp_replace(k.key_text, '^.*/', '') AS name,
       k.key_text, v.resource_version, v.ordinal, v.deleted, v.create_revision, v.version, v.lease,
       octet_length(COALESCE(v.long_key, v.key)) + COALESCE(octet_length(v.value), 0) AS bytes,
       text_of(v.value) AS text, COALESCE(v.long_key, v.key) AS key, v.value,
       to_timestamp(v.written_at / 1000.0) AS committed_at
FROM object_versions AS v CROSS JOIN LATERAL (SELECT text_of(COALESCE(v.long_key, v.key)) AS key_text) AS k;
COMMENT ON VIEW object_history IS 'every version that is not compacted, for people';
COMMENT ON COLUMN object_history.namespace IS 'the key up to its last ''/''';
COMMENT ON COLUMN object_history.name IS 'the part of the key after its last ''/''';
COMMENT ON COLUMN object_history.key_text IS 'the key, with escapes for bytes that are not UTF-8';
COMMENT ON COLUMN object_history.deleted IS 'true on a tombstone';
COMMENT ON COLUMN object_history.bytes IS 'length of key and value';
COMMENT ON COLUMN object_history.text IS 'the value, with escapes for bytes that are not UTF-8';
COMMENT ON COLUMN object_history.key IS 'its bytes; only object_versions finds a key by its index';
COMMENT ON COLUMN object_history.value IS 'as stored';
COMMENT ON COLUMN object_history.committed_at IS 'when this version was committed';

CREATE VIEW objects AS
SELECT v.namespace, v.name, v.key_text, v.resource_version, v.create_revision, v.version, v.lease, v.bytes, v.text,
       v.key, v.value, v.committed_at
FROM (
    SELECT DISTINCT ON (key) resource_version, ordinal, deleted
    FROM object_versions ORDER BY key, resource_version DESC, ordinal DESC
) AS n
JOIN object_history AS v USING (resource_version, ordinal)
WHERE NOT n.deleted;
COMMENT ON VIEW objects IS 'the objects that exist now, for people; its columns are those of object_history';

CREATE VIEW auth_rights AS
SELECT encode(u.name, 'escape') AS user_name, encode(r.role_name, 'escape') AS role_name,
       CASE p.kind WHEN 0 THEN 'read' WHEN 1 THEN 'write' WHEN 2 THEN 'readwrite' END AS kind,
       encode(p.key, 'escape') AS key, encode(p.range_end, 'escape') AS range_end
FROM auth_users AS u LEFT JOIN auth_user_roles AS r ON r.user_name = u.name
LEFT JOIN auth_permissions AS p ON p.role_name = r.role_name
ORDER BY u.name, r.role_name, p.place;
COMMENT ON VIEW auth_rights IS 'who may do what, for people';
