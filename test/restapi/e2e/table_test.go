package e2e

import (
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
)

// TestTable runs every case of lists, gets, watches and tokens against each replica.
func TestTable(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		for _, prefix := range []string{"/registry/pods/default/", "plain/"} {
			t.Run(prefix, func(t *testing.T) {
				lists := s.lists(prefix)
				put, del := semantics.Collection(s.client, lists)
				semantics.Run(t, semantics.Server{
					Client: s.client, Lists: lists, Put: put, Delete: del,
					Compact: s.compact,
				})
			})
		}
	})
}
