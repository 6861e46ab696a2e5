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

CREATE VIEW auth_rights AS
SELECT encode(u.name, 'escape') AS user_name, encode(r.role_name, 'escape') AS role_name,
       CASE p.kind WHEN 0 THEN 'read' WHEN 1 THEN 'write' WHEN 2 THEN 'readwrite' END AS kind,
       encode(p.key, 'escape') AS key, encode(p.range_end, 'escape') AS range_end
FROM auth_users AS u LEFT JOIN auth_user_roles AS r ON r.user_name = u.name
LEFT JOIN auth_permissions AS p ON p.role_name = r.role_name
ORDER BY u.name, r.role_name, p.place;
COMMENT ON VIEW auth_rights IS 'who may do what, for people';
COMMENT ON COLUMN clock.alarms IS 'increases with every change of the alarms, users or roles';
-- A program of version 6 does not read the tables: settings.oldest_program changes when authentication is enabled, to
-- 7. As long as a replica of such a version runs, it cannot be.
