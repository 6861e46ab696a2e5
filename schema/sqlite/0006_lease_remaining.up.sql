-- The remaining time of an imported lease, in seconds, until the first server opens the file; NULL: its full TTL.
ALTER TABLE leases ADD COLUMN remaining INTEGER;
