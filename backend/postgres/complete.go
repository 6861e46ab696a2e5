package postgres

import (
	"context"
	"fmt"
	"strings"
)

// allTables are those of the schema, oneRow those that always have exactly one row.
var (
	allTables = []string{
		"alarms", "auth", "auth_permissions", "auth_roles", "auth_tokens", "auth_user_roles", "auth_users", "clock",
		"holds", "lease_extension", "leases", "maintenance", "members", "object_versions", "programs", "purge",
		"settings", "token_keys",
	}
	oneRow = []string{"auth", "clock", "lease_extension", "maintenance", "purge"}
)

// checkComplete returns [ErrIncomplete] for a migrated database that lacks a table, or the row of a table that has one.
// A wait does not help. A running replica goes on trying, because somebody may restore what is missing.
func (b *Backend) checkComplete(ctx context.Context) error {
	missing, err := b.names(ctx, "look for missing tables",
		"SELECT t FROM unnest($1::text[]) AS t WHERE to_regclass(t) IS NULL", allTables)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: no table %s", ErrIncomplete, strings.Join(missing, ", "))
	}
	var empty []string
	for _, t := range oneRow {
		empty = append(empty, fmt.Sprintf("SELECT '%s' WHERE NOT EXISTS (SELECT FROM %s WHERE id = 1)", t, t))
	}
	missing, err = b.names(ctx, "look for missing rows", strings.Join(empty, " UNION ALL "))
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: no row in the table %s", ErrIncomplete, strings.Join(missing, ", "))
	}
	return err
}

// names returns the names that a query finds.
func (b *Backend) names(ctx context.Context, doing, sql string, args ...any) (found []string, err error) {
	err = b.reads.query(ctx, doing, func() { found = nil }, func(s *scanner) error {
		found = append(found, s.text())
		return nil
	}, sql, args...)
	return found, err
}
