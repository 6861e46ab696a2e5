CREATE TABLE lease_extension (
    id         integer PRIMARY KEY CHECK (id = 1),
    next_lease bigint
) WITH (fillfactor = 10);
INSERT INTO lease_extension (id, next_lease) VALUES (1, NULL);
COMMENT ON TABLE lease_extension IS
    'all leases get their full TTL again, in parts, after a period in which no client could renew';
COMMENT ON COLUMN lease_extension.next_lease IS
    'leases from this id on do not expire before their extension; NULL when all are extended';
-- A program of version 2 does not read the table, and extends all leases at once: settings.oldest_program stays at 1.
