-- Secrets that seal the continue tokens of lists. The greatest id seals, all open what they have sealed.
CREATE TABLE token_keys (
    id      INTEGER PRIMARY KEY,
    key     BLOB    NOT NULL, -- 32 random bytes
    made_at INTEGER NOT NULL  -- seconds since 1970
);
