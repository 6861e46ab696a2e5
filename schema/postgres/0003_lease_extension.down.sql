DROP TABLE lease_extension;
