-- This fails while authentication is enabled: an older program would let everybody in. Disable it first.
CREATE TABLE auth_is_disabled (enabled INTEGER NOT NULL CHECK (enabled = 0));
INSERT INTO auth_is_disabled SELECT enabled FROM auth;
DROP TABLE auth_is_disabled;
DROP VIEW auth_rights;
DROP TABLE auth_tokens;
DROP TABLE auth_permissions;
DROP TABLE auth_roles;
DROP TABLE auth_user_roles;
DROP TABLE auth_users;
DROP TABLE auth;
