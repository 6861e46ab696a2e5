package transfer

import "github.com/sqlstore/sqlstore/backend"

// Survivors tells which rows at or below the compacted revision belong to a source: those that were the newest of their
// keys there. Others may be left for a while, until they are removed. It takes about 70 bytes a key.
type Survivors struct {
	hasher
	compacted int64
	newest    map[keyHash]backend.RowID
}

// NewSurvivors returns the survivors of a compaction, none yet.
func NewSurvivors(compacted int64) *Survivors {
	return &Survivors{newHasher(), compacted, map[keyHash]backend.RowID{}}
}

// At reports whether a row is at or below the compacted revision, so that See needs it.
func (s *Survivors) At(r *backend.Row) bool { return r.ModRevision <= s.compacted }

// See adds the next row at or below the compacted revision, in (ModRevision, Ordinal) order.
func (s *Survivors) See(r *backend.Row) {
	key := s.hash(r.Key)
	if r.Deleted {
		delete(s.newest, key)
	} else {
		s.newest[key] = r.ID()
	}
}

// Has reports whether a row belongs to the source, after all rows were seen.
func (s *Survivors) Has(r *backend.Row) bool {
	switch {
	case r.ModRevision > s.compacted:
		return true
	case r.Deleted:
		return r.ModRevision == s.compacted // as etcd keeps it
	}
	return s.newest[s.hash(r.Key)] == r.ID()
}
