package store

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/sqlstore/sqlstore/backend"
)

// superseded finds the live rows at or below the compacted revision that are not the newest of their key at a later
// one. The database is asked about many rows in one statement, and only about those of which memory does not know.
type superseded struct {
	x        *Export
	revision int64

	mu sync.Mutex
	// known has those of the rows below the compacted revision that the rows learned supersede. It is nil if there are
	// too many, or if rows may supersede each other below that revision.
	known    *versions
	complete bool // known has all of them
}

// knownLimit limits the size of superseded.known: with more, to ask the database costs less.
const knownLimit = 1 << 18

// superseded is about the rows of the revisions above after, and what supersedes them up to a revision, which is not
// below the compacted one. Once rows have been purged up to there, only later ones supersede those below it.
func (x *Export) superseded(ctx context.Context, after, revision int64) (*superseded, error) {
	s := &superseded{x: x, revision: revision}
	if x.Compacted <= after {
		return s, nil
	}
	none, err := x.digests(ctx, backend.DigestQuery{Until: 1, Limit: 1}) // revision 1 has no rows
	if err != nil || none.Purged < x.Compacted {
		return s, err
	}
	s.known = &versions{seed: maphash.MakeSeed(), all: map[version]struct{}{}}
	s.complete = revision == x.Compacted
	return s, nil
}

// learn notes which rows those of a part of the history supersede.
func (s *superseded) learn(rows []backend.Digested) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.complete || s.known == nil {
		return
	}
	for i := range rows {
		r := &rows[i].Row
		if r.ModRevision > s.x.Compacted && r.ModRevision <= s.revision && r.PrevRevision > 0 &&
			r.PrevRevision < s.x.Compacted {
			s.known.add(r.PrevRevision, r.Key)
		}
	}
	if len(s.known.all) > knownLimit {
		s.known = nil
	}
}

// learned says that all rows above the compacted revision, up to the later one, have been learned.
func (s *superseded) learned() { s.complete = true }

// among returns which of n rows are superseded. The rows are in the order in which they were written. Errors: those of
// [Export.Rows].
func (s *superseded) among(ctx context.Context, n int, row func(i int) *backend.Row) (gone rowIDs, err error) {
	var ask []backend.RowID
	for i := range n {
		switch r := row(i); {
		case r.ModRevision > s.x.Compacted, r.Deleted:
		case s.complete && s.known != nil && r.ModRevision < s.x.Compacted:
			if s.known.has(r.ModRevision, r.Key) {
				gone = append(gone, r.ID())
			}
		case !s.x.s.index.HasNewest(r):
			ask = append(ask, r.ID())
		}
	}
	if len(ask) == 0 {
		return gone, nil
	}
	ids, clock, err := s.x.s.backend.Superseded(ctx, backend.SupersededQuery{
		Rows: ask, Revision: s.revision, Pin: s.x.shared,
	})
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return append(gone, ids...), s.x.check(clock)
}

// rowIDs are some of the rows that are read next.
type rowIDs []backend.RowID

// next reports whether r, the next row, is one of them.
func (ids *rowIDs) next(r *backend.Row) bool {
	if len(*ids) == 0 || (*ids)[0] != r.ID() {
		return false
	}
	*ids = (*ids)[1:]
	return true
}

// versions is a set of rows. Only rows of the same transaction could be mistaken for each other, if their keys have the
// same 64-bit hash.
type versions struct {
	seed maphash.Seed
	all  map[version]struct{}
}

type version struct {
	revision int64
	key      uint64
}

func (v *versions) add(revision int64, key []byte) {
	v.all[version{revision, maphash.Bytes(v.seed, key)}] = struct{}{}
}

func (v *versions) has(revision int64, key []byte) bool {
	_, ok := v.all[version{revision, maphash.Bytes(v.seed, key)}]
	return ok
}
