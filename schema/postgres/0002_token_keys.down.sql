DROP TABLE token_keys;
