package simdb

import (
	"bytes"
	"math"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// historyWindow limits the revisions that one call looks at for the rows of a span, as in package postgres.
const historyWindow = 8192

// rangeOf answers a range query.
func (st *state) rangeOf(q backend.RangeQuery) (rows []backend.Row) {
	var total int64
	st.each(q.Span, q.Revision, func(v *version) bool {
		r := v.row(q.KeysOnly)
		rows = append(rows, r)
		total += r.Size()
		return len(rows) < q.Limit && !reached(total, q.Bytes)
	})
	return rows[:min(len(rows), q.Limit)]
}

// reached reports whether total has reached the limit; 0 means no limit.
func reached(total, limit int64) bool { return limit > 0 && total >= limit }

func (st *state) count(q backend.RangeQuery) (n int64) {
	st.each(q.Span, q.Revision, func(*version) bool { n++; return true })
	return n
}

func (st *state) rowsOf(ids []backend.RowID, bytes int64) []backend.Row {
	rows := make([]backend.Row, 0, len(ids))
	var total int64
	for _, id := range ids {
		r := backend.Row{}
		if v, ok := st.rows.Get(&version{Row: backend.Row{ModRevision: id.ModRevision, Ordinal: id.Ordinal}}); ok {
			r = v.Row
		}
		rows = append(rows, r)
		if total += r.Size(); reached(total, bytes) {
			break
		}
	}
	return rows
}

// slice describes a part of history.
type slice struct {
	after, until    int64 // (after, until]
	limit           int
	bytes           int64
	keysOnly, prevs bool
	wanted          func(key []byte) bool // nil: all keys
}

// cut returns the changes of a slice, whole revisions until a limit is reached, the revision through which they are
// complete, and the batch of the last one.
func (st *state) cut(s slice) (changes []backend.Change, through, batch int64) {
	var total int64
	full := false
	from := &version{Row: backend.Row{ModRevision: s.after, Ordinal: math.MaxInt32}}
	st.rows.Ascend(from, func(v *version) bool {
		if v.ModRevision <= s.after || s.wanted != nil && !s.wanted(v.Key) {
			return v.ModRevision <= s.until
		}
		if v.ModRevision > s.until {
			return false
		}
		n := len(changes)
		if n > 0 && changes[n-1].Row.ModRevision != v.ModRevision && (n >= s.limit || reached(total, s.bytes)) {
			full = true
			return false
		}
		c := backend.Change{Row: v.row(s.keysOnly)}
		total += c.Row.Size()
		if p := st.superseded(v); s.prevs && p != nil {
			r := p.row(s.keysOnly)
			c.Prev = &r
			total += r.Size()
		}
		changes, batch = append(changes, c), v.batch
		return true
	})
	if full {
		return changes, changes[len(changes)-1].Row.ModRevision, batch
	}
	return changes, max(s.after, s.until), batch
}

// wantedOf returns a filter for the keys of a span, nil if that is all of them, and whether the span is a single key.
func wantedOf(s backend.Span) (wanted func([]byte) bool, single bool) {
	switch {
	case s.End == nil && len(s.Start) == 0:
		return nil, false
	case s.End == nil:
		return func(k []byte) bool { return bytes.Equal(k, s.Start) }, true
	case len(s.End) == 0 && bytes.Compare(s.Start, []byte{0}) <= 0:
		return nil, false
	case len(s.End) == 0:
		return func(k []byte) bool { return bytes.Compare(k, s.Start) >= 0 }, false
	}
	return func(k []byte) bool {
		return bytes.Compare(k, s.Start) >= 0 && bytes.Compare(k, s.End) < 0
	}, false
}

func (st *state) history(q backend.HistoryQuery) backend.History {
	h := backend.History{Clock: st.underPin(q.Pin)}
	wanted, single := wantedOf(q.Span)
	until := h.Clock.Revision
	if q.Until > 0 {
		until = min(until, q.Until)
	}
	if wanted != nil && !single {
		until = min(until, q.After+historyWindow)
	}
	h.Changes, h.Through, _ = st.cut(slice{
		after: q.After, until: until, limit: max(q.Limit, 1), bytes: q.Bytes, keysOnly: q.KeysOnly, prevs: q.WithPrev,
		wanted: wanted,
	})
	return h
}

func (st *state) digests(q backend.DigestQuery) backend.Digests {
	d := backend.Digests{Clock: st.underPin(q.Pin), Purged: min(st.purge.target, st.purge.next.ModRevision-1)}
	until := d.Clock.Revision
	if q.Until > 0 {
		until = min(until, q.Until)
	}
	changes, through, _ := st.cut(slice{
		after: q.After, until: until, limit: max(q.Limit, 1), bytes: q.Bytes,
	})
	for i := range changes {
		r := changes[i].Row
		digest := backend.DigestOf(r.Value)
		r.Value = nil
		d.Rows = append(d.Rows, backend.Digested{Row: r, Digest: digest})
	}
	d.Through = through
	return d
}

// supersededOf returns the rows of q that are not the newest of their key at q's revision, or no longer exist.
func (st *state) supersededOf(q backend.SupersededQuery) (ids []backend.RowID) {
	for _, id := range q.Rows {
		v, ok := st.rows.Get(&version{Row: backend.Row{ModRevision: id.ModRevision, Ordinal: id.Ordinal}})
		if ok {
			n := st.newest(v.Key, q.Revision)
			ok = n == nil || n.ID().Compare(id) <= 0
		}
		if !ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (st *state) tail(q backend.TailQuery) backend.Tail {
	t := backend.Tail{
		Clock: st.clock, Alarms: st.alarms, Base: st.batchAt(q.After), Purged: st.purge.target,
	}
	until := t.Clock.Revision
	if q.Until > 0 {
		until = min(until, q.Until)
	}
	var batch int64
	t.Changes, t.Through, batch = st.cut(slice{
		after: q.After, until: until, limit: max(q.Limit, 1), bytes: q.Bytes, keysOnly: q.KeysOnly, prevs: q.WithPrev,
	})
	last := q.After
	if n := len(t.Changes); n > 0 {
		last = t.Changes[n-1].Row.ModRevision
	} else {
		batch = t.Base
	}
	if t.Clock.Revision == t.Through && (last < t.Through || batch == 0) {
		batch = st.batch // without rows, as a repair does
	}
	t.Batch = batch
	return t
}

// load reads what a transaction needs.
func (st *state) load(n *backend.Needs) (*backend.Loaded, error) {
	l := &backend.Loaded{Clock: st.clock}
	if n.Import {
		l.Import = st.imports
	}
	if n.Tail != nil {
		l.Tail = st.tail(*n.Tail)
	}
	for _, key := range n.Keys {
		if v := st.newest(key, math.MaxInt64); v != nil && !v.Deleted {
			l.Rows = append(l.Rows, v.Row)
		}
	}
	left := n.SpanLimit
	for _, s := range n.Spans {
		st.each(s, math.MaxInt64, func(v *version) bool {
			l.Rows = append(l.Rows, v.Row)
			left--
			return left >= 0
		})
	}
	if left < 0 {
		return nil, backend.ErrTooManyRows
	}
	slices.SortFunc(l.Rows, compareRows)
	l.Rows = slices.CompactFunc(l.Rows, func(a, b backend.Row) bool { return bytes.Equal(a.Key, b.Key) })
	if len(n.LeaseKeys) > 0 {
		st.each(backend.Span{End: []byte{}}, math.MaxInt64, func(v *version) bool {
			if v.Lease != 0 && slices.Contains(n.LeaseKeys, v.Lease) {
				l.LeaseRows = append(l.LeaseRows, v.row(true))
			}
			return len(l.LeaseRows) <= n.LeaseLimit
		})
		if len(l.LeaseRows) > n.LeaseLimit && len(n.LeaseKeys) > 1 {
			return nil, backend.ErrTooManyRows
		}
	}
	return l, nil
}
