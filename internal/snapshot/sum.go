package snapshot

import "github.com/sqlstore/sqlstore/backend"

// Sum computes etcd's HashKV of rows that the caller chooses as [store.Hashed] does.
type Sum struct{ h hasher }

// NewSum returns the Sum of no rows.
func NewSum() *Sum {
	s := &Sum{}
	s.h.add(bucketKey)
	return s
}

// Add continues with the next row in (ModRevision, Ordinal) order.
func (s *Sum) Add(r *backend.Row) { _ = s.h.row(*r) } // it returns no error

// AddRaised continues with the entry that `etcdutl snapshot restore --bump-revision` writes at a revision.
func (s *Sum) AddRaised(revision int64) {
	s.h.buffer = appendRevision(s.h.buffer[:0], backend.RowID{ModRevision: revision}, false)
	s.h.add(s.h.buffer)
}

// Hash returns the hash of the rows added so far.
func (s *Sum) Hash() uint32 { return s.h.sum }
