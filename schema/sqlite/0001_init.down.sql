DROP VIEW objects;
DROP TABLE purge;
DROP TABLE settings;
DROP TABLE alarms;
DROP TABLE leases;
DROP TABLE clock;
DROP TABLE object_versions;
