package simdb

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/sqlstore/sqlstore/backend"
)

// version is a stored row.
type version struct {
	backend.Row
	batch   int64
	written time.Time
}

// state is the contents of the database after a commit. It does not change after that.
type state struct {
	clock  backend.Clock
	batch  int64 // that last moved the revision
	alarms int64 // a number that increases with every change of raised, users and roles
	bytes  int64 // of all rows

	written time.Time // of the last commit

	rows *btree.BTreeG[*version] // by revision and ordinal
	keys *btree.BTreeG[*version] // by key, revision and ordinal

	leases  *btree.Map[int64, lease]
	members *btree.Map[uint64, member]
	pins    *btree.Map[int64, pin]
	tokens  *btree.Map[int64, backend.TokenKey]
	raised  []backend.Alarm // replaced with every change
	auth    auth
	imports backend.Import
	paused  *time.Time // when an import stored the remaining time of leases; nil once it passes again

	holder uint64    // of the maintenance lease
	heard  time.Time // when a heartbeat last came
	next   *int64    // where an extension of all leases continues; nil for none
	purge  purgeProgress

	last *Commit // that moved the revision
}

// Commit is a transaction that moved the revision. It stays in memory when its rows are purged.
type Commit struct {
	Rows     []backend.Row
	Revision int64     // of the clock afterwards
	Epoch    int64     // of the clock before
	At       time.Time // by the true clock
	Before   *Commit
}

type member struct {
	backend.Member
	seen time.Time
}

type pin struct {
	revision int64
	expires  time.Time
}

// lease is a row of the table of leases. ending marks a lease whose revocation has begun.
type lease struct {
	ttl     time.Duration
	ending  bool
	expires time.Time
}

func byRevision(a, b *version) bool {
	if a.ModRevision != b.ModRevision {
		return a.ModRevision < b.ModRevision
	}
	return a.Ordinal < b.Ordinal
}

func byKey(a, b *version) bool {
	if c := bytes.Compare(a.Key, b.Key); c != 0 {
		return c < 0
	}
	return byRevision(a, b)
}

func newState(now time.Time) *state {
	return &state{
		clock:  backend.Clock{Revision: 1, Epoch: 1},
		rows:   btree.NewBTreeGOptions(byRevision, btree.Options{NoLocks: true}),
		keys:   btree.NewBTreeGOptions(byKey, btree.Options{NoLocks: true}),
		leases: &btree.Map[int64, lease]{}, members: &btree.Map[uint64, member]{}, pins: &btree.Map[int64, pin]{},
		tokens: &btree.Map[int64, backend.TokenKey]{}, heard: now, auth: newAuth(),
	}
}

// edit returns a copy that may be changed.
func (st *state) edit() *state {
	next := *st
	next.rows, next.keys = st.rows.Copy(), st.keys.Copy()
	next.leases, next.members, next.pins = st.leases.Copy(), st.members.Copy(), st.pins.Copy()
	next.tokens, next.auth = st.tokens.Copy(), st.auth.copy()
	return &next
}

// alarm raises and clears alarms, on a state that is being edited.
func (st *state) alarm(raised, cleared []backend.Alarm) {
	if len(raised)+len(cleared) == 0 {
		return
	}
	st.alarms++
	var kept []backend.Alarm
	for _, a := range slices.Concat(st.raised, raised) {
		if !slices.Contains(cleared, a) && !slices.Contains(kept, a) {
			kept = append(kept, a)
		}
	}
	st.raised = kept
}

// newest returns the newest row of key at revision, the last one of several; nil for none.
func (st *state) newest(key []byte, revision int64) (found *version) {
	last := &version{Row: backend.Row{Key: key, ModRevision: revision, Ordinal: math.MaxInt32}}
	st.keys.Descend(last, func(v *version) bool {
		if bytes.Equal(v.Key, key) {
			found = v
		}
		return false
	})
	return found
}

// superseded returns the row that v replaced, if it still exists.
func (st *state) superseded(v *version) (found *version) {
	if v.PrevRevision == 0 {
		return nil
	}
	first := &version{Row: backend.Row{Key: v.Key, ModRevision: v.PrevRevision}}
	st.keys.Ascend(first, func(p *version) bool {
		if p.ModRevision != v.PrevRevision || !bytes.Equal(p.Key, v.Key) {
			return false
		}
		if !p.Deleted {
			found = p
		}
		return found == nil
	})
	return found
}

// each calls f with the newest rows at revision of the keys in the span, without tombstones, in key order, until it
// returns false.
func (st *state) each(s backend.Span, revision int64, f func(*version) bool) {
	if s.End == nil {
		if v := st.newest(s.Start, revision); v != nil && !v.Deleted {
			f(v)
		}
		return
	}
	from := &version{Row: backend.Row{Key: s.Start, ModRevision: math.MinInt64}}
	for from != nil {
		var key []byte
		st.keys.Ascend(from, func(v *version) bool {
			if len(s.End) == 0 || bytes.Compare(v.Key, s.End) < 0 {
				key = v.Key
			}
			return false
		})
		if key == nil {
			return
		}
		if v := st.newest(key, revision); v != nil && !v.Deleted && !f(v) {
			return
		}
		from = &version{Row: backend.Row{Key: key, ModRevision: math.MaxInt64, Ordinal: math.MaxInt32}}
	}
}

// batchAt returns the batch that wrote a revision, 0 if no row of it exists.
func (st *state) batchAt(revision int64) (batch int64) {
	st.rows.Ascend(&version{Row: backend.Row{ModRevision: revision, Ordinal: math.MinInt32}}, func(v *version) bool {
		if v.ModRevision == revision {
			batch = v.batch
		}
		return false
	})
	return batch
}

// underPin is the clock for a read that relies on a pin.
func (st *state) underPin(id int64) backend.Clock {
	clock := st.clock
	if p, ok := st.pins.Get(id); ok {
		clock.Compacted = min(clock.Compacted, p.revision)
	}
	return clock
}

// row returns a copy of v, without its value if keysOnly is set.
func (v *version) row(keysOnly bool) backend.Row {
	r := v.Row
	if keysOnly {
		r.Value, r.WrittenAt = nil, 0
	}
	return r
}

func compareRows(a, b backend.Row) int {
	return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(a.ModRevision, b.ModRevision))
}
