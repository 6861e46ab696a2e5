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

-- For people: who may do what.
CREATE VIEW auth_rights AS
SELECT u.name AS user_name, r.role_name,
       CASE p.kind WHEN 0 THEN 'read' WHEN 1 THEN 'write' WHEN 2 THEN 'readwrite' END AS kind,
       CAST(p.key AS TEXT) AS key, CAST(p.range_end AS TEXT) AS range_end
FROM auth_users AS u LEFT JOIN auth_user_roles AS r ON r.user_name = u.name
LEFT JOIN auth_permissions AS p ON p.role_name = r.role_name
ORDER BY u.name, r.role_name, p.place;
