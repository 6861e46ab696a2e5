ALTER TABLE leases DROP COLUMN remaining;
