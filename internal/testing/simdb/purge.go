package simdb

import (
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// purgeProgress is the progress of the removal of rows: those before next are done for a compaction at target.
type purgeProgress struct {
	target int64
	next   backend.RowID
}

// advance makes p the progress of a compaction at target. Rows at the target of an earlier one are examined again: a
// watch from there still showed them.
func (p *purgeProgress) advance(target int64) {
	if p.target < target {
		if p.next.ModRevision >= p.target {
			p.next = backend.RowID{ModRevision: p.target}
		}
		p.target = target
	}
}

// target is the revision up to which a purge may remove rows now, until and pins considered.
func (st *state) target(compacted, until int64) int64 {
	target := min(compacted, until)
	st.pins.Scan(func(_ int64, p pin) bool { target = min(target, p.revision); return true })
	return target
}

// expirePins removes the pins that have passed.
func (st *state) expirePins(now time.Time) {
	for _, id := range st.pins.Keys() {
		if p, _ := st.pins.Get(id); !p.expires.After(now) {
			st.pins.Delete(id)
		}
	}
}

// purgeStep removes up to limit rows from a state that is being edited, in the order in which package postgres does.
// compacted is the compacted revision that is visible.
func (st *state) purgeStep(limit int, compacted, until int64, now time.Time) (res backend.PurgeResult) {
	st.expirePins(now)
	p, target := st.purge, st.target(compacted, until)
	before := p
	p.advance(target)
	if target < compacted && p == before && p.next.ModRevision > p.target {
		return res
	}
	var rows []*version
	from := &version{Row: backend.Row{ModRevision: p.next.ModRevision, Ordinal: p.next.Ordinal}}
	st.rows.Ascend(from, func(v *version) bool {
		if v.ModRevision > p.target || len(rows) == limit {
			return false
		}
		rows = append(rows, v)
		return true
	})
	res.Examined = len(rows)
	removed, done := st.walk(&p, rows, limit)
	if done {
		p.next = backend.RowID{ModRevision: p.target + 1}
	}
	for _, v := range removed {
		if _, ok := st.rows.Delete(v); ok {
			st.keys.Delete(v)
			st.bytes -= v.size()
			res.Removed++
		}
	}
	st.purge = p
	res.Through = min(max(0, p.next.ModRevision-1), p.target)
	res.Near = res.Through
	res.Done = done && p.target >= compacted
	res.Duration = time.Millisecond
	return res
}

// walk chooses up to limit rows to remove, moves p past those that are done, and reports whether none are left.
func (st *state) walk(p *purgeProgress, rows []*version, limit int) (remove []*version, done bool) {
	for _, v := range rows {
		below := v.ModRevision < p.target
		if old := st.superseded(v); len(remove) < limit && old != nil && (v.PrevRevision < v.ModRevision || below) {
			remove = append(remove, old)
		}
		if len(remove) >= limit {
			return remove, false // the row itself may still have to be removed; it is examined again
		}
		if v.Deleted && below {
			remove = append(remove, v)
		}
		p.next = backend.RowID{ModRevision: v.ModRevision, Ordinal: v.Ordinal + 1}
	}
	return remove, len(rows) < limit
}
