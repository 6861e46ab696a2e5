package postgres

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

// thisProgram is the newest version of the schema of which other replicas need to know that this one understands it.
const thisProgram = authProgram

const (
	// oldMembers counts the live replicas of programs older than the given one.
	oldMembers = "SELECT count(*) FROM members WHERE program < $1::integer " +
		"AND seen_at > clock_timestamp() - interval '10 seconds'"
	// barOldPrograms keeps programs older than the given one from starting.
	barOldPrograms = "UPDATE settings SET value = $1::bigint WHERE name = 'oldest_program' AND value < $1::bigint"
)

// understood returns an error while a replica runs alongside this one that would misinterpret the effects.
func (t *tx) understood(e *backend.Effects) error {
	if hasLong(e.Rows) {
		what := fmt.Sprintf("a key of more than %d bytes", maxKey)
		if err := t.understoodSince(longKeysProgram, what); err != nil {
			return err
		}
	}
	if e.Auth != nil && e.Auth.Enabled {
		return t.understoodSince(authProgram, "authentication")
	}
	return nil
}

// understoodSince returns an error while a replica older than the program runs.
func (t *tx) understoodSince(program int32, what string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockedTimeout)
	defer cancel()
	old := int64(0)
	err := scan(ctx, t.c.Conn(), func(s *scanner) error { old = s.integer(); return nil }, oldMembers,
		[]any{program})
	switch {
	case err != nil:
		return fmt.Errorf("commit: %w: %w", backend.ErrUnavailable, err)
	case old > 0:
		return fmt.Errorf("commit: %w (%s; %d older replicas)", backend.ErrOldReplica, what, old)
	}
	return nil
}
