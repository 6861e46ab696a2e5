CREATE TABLE token_keys (
    id      bigint PRIMARY KEY,
    key     bytea  NOT NULL,
    made_at timestamptz NOT NULL
);
COMMENT ON TABLE token_keys IS 'secrets that seal the continue tokens of lists, for all replicas';
COMMENT ON COLUMN token_keys.id IS 'the key with the greatest id seals; every key opens its own tokens';
COMMENT ON COLUMN token_keys.key IS '32 random bytes';
COMMENT ON COLUMN token_keys.made_at IS 'by this server''s clock';
-- A program of version 1 does not read the table: settings.oldest_program stays at 1.
