package transfer

import (
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

// links knows the newest version of each live key, and derives from it which row a further one supersedes. It takes
// about 100 bytes a key.
type links struct {
	hasher
	newest    map[keyHash]newest
	last      backend.RowID
	compacted int64
	gaps      bool
}

type newest struct {
	mod, create, version int64
}

func newLinks(c *backend.Contents) *links {
	return &links{
		hasher: newHasher(), newest: map[keyHash]newest{},
		compacted: c.Compacted, gaps: c.Gaps,
	}
}

// add verifies the next row against those before it, and sets its PrevRevision. Errors: [backend.ErrDamagedSource].
func (l *links) add(r *backend.Row) error {
	if err := l.order(r); err != nil {
		return err
	}
	key := l.hash(r.Key)
	before, exists := l.newest[key]
	r.PrevRevision = before.mod
	if r.Deleted {
		if !exists && r.ModRevision > l.compacted {
			return l.damage(r, "it deletes a key that does not exist")
		}
		delete(l.newest, key)
		return nil
	}
	switch {
	case r.CreateRevision < 1 || r.CreateRevision > r.ModRevision || r.Version < 1:
		return l.damage(r, "it has version %d and was created at revision %d", r.Version, r.CreateRevision)
	case exists && (r.CreateRevision != before.create || r.Version != before.version+1):
		return l.damage(r, "version %d, created at revision %d, follows version %d, created at revision %d", r.Version,
			r.CreateRevision, before.version, before.create)
	case !exists && r.Version > 1 && r.ModRevision > l.compacted:
		return l.damage(r, "it has version %d, and the version before it is missing", r.Version)
	case !exists && r.Version > 1:
		r.PrevRevision = r.CreateRevision // the row that it superseded is compacted: any revision of its life will do
	}
	l.newest[key] = newest{r.ModRevision, r.CreateRevision, r.Version}
	return nil
}

// order verifies the place of a row among all rows.
func (l *links) order(r *backend.Row) error {
	last := l.last
	l.last = r.ID()
	switch {
	case r.ModRevision < max(last.ModRevision, 1), r.ModRevision == last.ModRevision && r.Ordinal <= last.Ordinal,
		r.Ordinal < 0:
		return l.damage(r, "it is out of order, after revision %d", last.ModRevision)
	case r.ModRevision <= l.compacted:
		return nil
	case r.ModRevision == last.ModRevision && r.Ordinal != last.Ordinal+1,
		r.ModRevision != last.ModRevision && r.Ordinal != 0:
		return l.damage(r, "rows before it are missing")
	case !l.gaps && r.ModRevision > max(last.ModRevision, l.compacted, 1)+1:
		return l.damage(r, "revisions %d to %d have no rows", max(last.ModRevision, l.compacted, 1)+1,
			r.ModRevision-1)
	}
	return nil
}

func (l *links) damage(r *backend.Row, format string, args ...any) error {
	return fmt.Errorf("%w: key %q at revision %d: %s", backend.ErrDamagedSource, r.Key[:min(len(r.Key), 200)],
		r.ModRevision, fmt.Sprintf(format, args...))
}

// hashed reports whether etcd's HashKV at the current revision includes the row, after all rows were added.
func (l *links) hashed(r *backend.Row) bool {
	switch {
	case r.ModRevision > l.compacted:
		return true
	case r.Deleted:
		return false
	}
	return len(l.newest) == 0 || l.newest[l.hash(r.Key)].mod == r.ModRevision
}
