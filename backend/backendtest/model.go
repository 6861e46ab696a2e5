package backendtest

import (
	"bytes"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// model is what a backend should contain: all rows ever written, in order, and the clock.
type model struct {
	clock backend.Clock
	rows  []backend.Row
	of    map[string][]int // the rows of each key, as places in rows
}

func newModel(c backend.Clock) *model { return &model{clock: c, of: map[string][]int{}} }

// newest returns the newest row of key, the last one of several at the same revision; nil for none.
func (m *model) newest(key []byte) *backend.Row {
	if of := m.of[string(key)]; len(of) > 0 {
		return &m.rows[of[len(of)-1]]
	}
	return nil
}

// add makes the rows of a transaction at the next revision and advances the clock to it. It omits deletions of absent
// keys, and a transaction without effect uses no revision.
func (m *model) add(ops []op) []backend.Row {
	revision := m.clock.Revision + 1
	start := len(m.rows)
	for _, o := range ops {
		key := []byte(o.key)
		prev := m.newest(key)
		if prev != nil && prev.Deleted {
			prev = nil
		}
		r := backend.Row{Key: key, ModRevision: revision, Ordinal: int32(len(m.rows) - start), Deleted: o.delete}
		if prev != nil {
			r.PrevRevision = prev.ModRevision
		}
		switch {
		case o.delete && prev == nil:
			continue
		case o.delete:
		case prev == nil:
			r.CreateRevision, r.Version = revision, 1
		default:
			r.CreateRevision, r.Version = prev.CreateRevision, prev.Version+1
		}
		if !o.delete {
			r.Value, r.Lease = []byte(o.value), o.lease
		}
		m.of[o.key] = append(m.of[o.key], len(m.rows))
		m.rows = append(m.rows, r)
	}
	if len(m.rows) > start {
		m.clock.Revision = revision
	}
	return slices.Clone(m.rows[start:])
}

func contains(s backend.Span, key []byte) bool {
	switch {
	case s.End == nil:
		return bytes.Equal(s.Start, key)
	case len(s.End) == 0:
		return bytes.Compare(s.Start, key) <= 0
	}
	return bytes.Compare(s.Start, key) <= 0 && bytes.Compare(key, s.End) < 0
}

// newestRows are the newest rows of all keys at revision, tombstones included, in key order.
func (m *model) newestRows(revision int64) []backend.Row {
	at := map[string]backend.Row{}
	for _, r := range m.rows {
		if r.ModRevision <= revision {
			at[string(r.Key)] = r
		}
	}
	rows := make([]backend.Row, 0, len(at))
	for _, r := range at {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b backend.Row) int { return bytes.Compare(a.Key, b.Key) })
	return rows
}

// rangeAt are the live rows of a span at revision, in key order.
func (m *model) rangeAt(s backend.Span, revision int64) []backend.Row {
	return slices.DeleteFunc(m.newestRows(revision),
		func(r backend.Row) bool { return r.Deleted || !contains(s, r.Key) })
}

// history are the rows of a span in (after, until].
func (m *model) history(s backend.Span, after, until int64) (rows []backend.Row) {
	for _, r := range m.rows {
		if r.ModRevision > after && r.ModRevision <= until && contains(s, r.Key) {
			rows = append(rows, r)
		}
	}
	return rows
}

// superseded returns the row that r replaced, nil for none.
func (m *model) superseded(r *backend.Row) *backend.Row {
	for _, i := range m.of[string(r.Key)] {
		if p := &m.rows[i]; !p.Deleted && p.ModRevision == r.PrevRevision {
			return p
		}
	}
	return nil
}

// retained returns the rows that remain after a complete purge: all from the compacted revision on, and below it those
// that were live at it.
func (m *model) retained() (rows []backend.Row) {
	live := map[backend.RowID]bool{}
	for _, r := range m.newestRows(m.clock.Compacted) {
		live[r.ID()] = !r.Deleted
	}
	for _, r := range m.rows {
		if r.ModRevision >= m.clock.Compacted || live[r.ID()] {
			rows = append(rows, r)
		}
	}
	return rows
}
