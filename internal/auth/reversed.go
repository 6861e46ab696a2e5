package auth

import (
	"bytes"

	"go.etcd.io/etcd/pkg/v3/adt"
)

// reversed reports whether a range is empty because its end is not above its key.
func reversed(key, end []byte) bool {
	return len(end) > 0 && !open(end) && bytes.Compare(key, end) >= 0
}

// coverReversed is cover for such a range. What etcd allows then depends on the shape of the tree in which it keeps a
// user's permissions, and clients see it: so this asks the same tree.
func (s *State) coverReversed(u *user, key, end []byte, write bool) bool {
	kind := Read
	if write {
		kind = Write
	}
	tree := adt.NewIntervalTree()
	for p := range s.permissions(u) {
		if p.Kind != ReadWrite && p.Kind != kind {
			continue
		}
		granted := adt.NewBytesAffinePoint(p.Key)
		switch {
		case open(p.End):
			granted = adt.NewBytesAffineInterval(p.Key, nil)
		case len(p.End) > 0:
			granted = adt.NewBytesAffineInterval(p.Key, p.End)
		}
		tree.Insert(granted, struct{}{})
	}
	return tree.Contains(adt.NewBytesAffineInterval(key, end))
}
