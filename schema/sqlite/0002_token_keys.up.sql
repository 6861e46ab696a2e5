-- Secrets that seal the continue tokens of lists. The key with the greatest id seals; every key opens its own tokens.
CREATE TABLE token_keys (
    id      INTEGER PRIMARY KEY,
    key     BLOB    NOT NULL, -- 32 random bytes
    made_at INTEGER NOT NULL  -- seconds since 1970
);
