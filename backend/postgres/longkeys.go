package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math"

	"github.com/sqlstore/sqlstore/backend"
)

// An index entry takes at most a third of a page, so a key of more than maxKey bytes is long: the column key holds its
// first maxKey bytes and the SHA-256 of the whole key, and the column long_key holds the key itself.
//
// The value in the column key is unique to the key, so lookups work as for other keys. Long keys that share their first
// maxKey bytes form a group. Its entries are adjacent in the index, after all shorter keys that are smaller and before
// all that are greater, but within the group their order is meaningless. So a span with a long bound is read in parts,
// see parts, and a group is sorted when a page ends in it.
const (
	maxKey     = 2600
	indexedKey = maxKey + sha256.Size
)

func long(key []byte) bool { return len(key) > maxKey }

// indexed returns the value of the column key for a key.
func indexed(key []byte) []byte {
	if !long(key) {
		return key
	}
	sum := sha256.Sum256(key)
	return append(append(make([]byte, 0, indexedKey), key[:maxKey]...), sum[:]...)
}

// allIndexed applies indexed to each key.
func allIndexed(keys [][]byte) [][]byte {
	var out [][]byte
	for i, key := range keys {
		if long(key) && out == nil {
			out = append(out, keys...)
		}
		if out != nil {
			out[i] = indexed(key)
		}
	}
	if out == nil {
		return keys
	}
	return out
}

// before and behind return the bounds, for the column key, that enclose the whole group of a prefix.
func before(prefix []byte) []byte { return append(bytes.Clone(prefix), 0) }

func behind(prefix []byte) []byte {
	return append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, indexedKey-maxKey+1)...)
}

// part is a part of a span: either the entries of the key index within bounds that apply to the column key, or the keys
// of one group that are not less than from and, unless until is nil, less than until.
type part struct {
	entries     backend.Span
	group       []byte
	from, until []byte
}

// parts splits a span at its long bounds, in key order.
func parts(s backend.Span) []part {
	if s.End == nil {
		return []part{{entries: backend.Span{Start: indexed(s.Start)}}}
	}
	if !long(s.Start) && !long(s.End) {
		return []part{{entries: s}}
	}
	if len(s.End) > 0 && bytes.Compare(s.Start, s.End) >= 0 {
		return nil
	}
	var all []part
	middle := s
	if long(s.Start) {
		first := part{group: s.Start[:maxKey], from: s.Start}
		if long(s.End) && bytes.Equal(s.End[:maxKey], first.group) {
			first.until = s.End
			return []part{first}
		}
		all, middle.Start = append(all, first), behind(first.group)
	}
	if !long(s.End) {
		return append(all, part{entries: middle})
	}
	last := part{group: s.End[:maxKey], until: s.End}
	middle.End = before(last.group)
	return append(all, part{entries: middle}, last)
}

// wider returns a span for the column key that contains all keys of s, and possibly other keys of the groups at its
// bounds.
func wider(s backend.Span) backend.Span {
	if s.End == nil {
		return backend.Span{Start: indexed(s.Start)}
	}
	if long(s.Start) {
		s.Start = before(s.Start[:maxKey])
	}
	if long(s.End) {
		s.End = behind(s.End[:maxKey])
	}
	return s
}

// inSpan reports whether a key is in a span.
func inSpan(key []byte, s backend.Span) bool {
	if s.End == nil {
		return bytes.Equal(key, s.Start)
	}
	return bytes.Compare(key, s.Start) >= 0 && (len(s.End) == 0 || bytes.Compare(key, s.End) < 0)
}

// Range implements [backend.Backend].
func (b *Backend) Range(
	ctx context.Context, q backend.RangeQuery,
) (rows []backend.Row, clock backend.Clock, err error) {
	ctx = q.Priority(ctx)
	if !long(q.Span.Start) && !long(q.Span.End) { // nearly always
		rows, clock, err = b.rangeOf(ctx, q)
		if err != nil || !cutInGroup(rows, q) {
			return rows, clock, err
		}
	}
	var all joined
	rows, limit, left := nil, q.Limit, q.Bytes
	for _, p := range parts(q.Span) {
		if len(rows) >= limit || reached(all.bytes, left) {
			break
		}
		q.Limit, q.Bytes = limit-len(rows), left-all.bytes
		if left == 0 {
			q.Bytes = 0
		}
		if p.group == nil {
			q.Span = p.entries
			err = b.rangeOfEntries(ctx, q, &all)
		} else {
			err = b.rangeOfGroup(ctx, q, p, &all)
		}
		if err != nil {
			return nil, backend.Clock{}, err
		}
		rows = all.rows
	}
	if !all.any {
		clock, err = b.Clock(ctx)
		return nil, clock, err
	}
	return rows, all.clock, nil
}

// cutInGroup reports whether a limit ends the rows inside a group, so that keys of the group that belong before the
// last row may be missing.
func cutInGroup(rows []backend.Row, q backend.RangeQuery) bool {
	n := len(rows)
	if n == 0 || !long(rows[n-1].Key) || q.Span.End == nil {
		return false
	}
	return n >= q.Limit || reached(size(rows), q.Bytes)
}

func size(rows []backend.Row) (n int64) {
	for i := range rows {
		n += rows[i].Size()
	}
	return n
}

// joined holds the rows of several statements, each with its own snapshot. That works because rows do not change; clock
// is one that holds for all of the snapshots.
type joined struct {
	rows  []backend.Row
	count int64
	bytes int64
	clock backend.Clock
	any   bool
}

func (j *joined) add(rows []backend.Row, clock backend.Clock) error {
	switch {
	case !j.any:
		j.clock, j.any = clock, true
	case j.clock.Epoch != clock.Epoch:
		return fmt.Errorf("read a range: %w: history was lost in the middle of it", backend.ErrUnavailable)
	}
	j.clock.Revision, j.clock.Compacted = min(j.clock.Revision, clock.Revision), max(j.clock.Compacted, clock.Compacted)
	j.rows, j.bytes = append(j.rows, rows...), j.bytes+size(rows)
	return nil
}

// rangeOfEntries reads a part that contains whole groups. If the page ends inside a group, it reads that group in key
// order.
func (b *Backend) rangeOfEntries(ctx context.Context, q backend.RangeQuery, all *joined) error {
	rows, clock, err := b.rangeOf(ctx, q)
	if err != nil {
		return err
	}
	if !cutInGroup(rows, q) {
		return all.add(rows, clock)
	}
	n := len(rows) - 1
	group := rows[n].Key[:maxKey]
	for n > 0 && long(rows[n-1].Key) && bytes.Equal(rows[n-1].Key[:maxKey], group) {
		n--
	}
	if err := all.add(rows[:n], clock); err != nil {
		return err
	}
	q.Limit -= n
	if q.Bytes > 0 {
		q.Bytes -= size(rows[:n])
	}
	return b.rangeOfGroup(ctx, q, part{group: group}, all)
}

func (p part) args(revision int64) []any {
	return []any{revision, int64(math.MaxInt64), before(p.group), behind(p.group), notNil(p.from), p.until}
}

func (b *Backend) rangeOfGroup(ctx context.Context, q backend.RangeQuery, p part, all *joined) error {
	most := int64(math.MaxInt64)
	if q.Bytes > 0 {
		most = q.Bytes
	}
	args := append(p.args(q.Revision), int64(q.Limit))
	if !q.KeysOnly {
		args = append(args, most)
	}
	rows, clock, err := b.list(ctx, q, groupSQL[index(q.KeysOnly)], false, args)
	if err != nil {
		return err
	}
	return all.add(rows, clock)
}

// Count implements [backend.Backend].
func (b *Backend) Count(ctx context.Context, q backend.RangeQuery) (int64, backend.Clock, error) {
	ctx = q.Priority(ctx)
	var all joined
	count := func(sql string, args []any) error {
		var n int64
		var clock backend.Clock
		sql, args = underPin(q.Pin, sql, args)
		reset := func() { n, clock = 0, backend.Clock{} }
		err := b.laneForMany(ctx).query(ctx, "count a range", reset, func(s *scanner) error {
			clock, n = s.clock(), s.integer()
			return nil
		}, sql, args...)
		if err != nil {
			return err
		}
		all.count += n
		return all.add(nil, clock)
	}
	for _, p := range parts(q.Span) {
		var err error
		if p.group == nil {
			form, span := shape(p.entries)
			err = count(countSQL[form], append([]any{q.Revision}, span...))
		} else {
			err = count(groupCountSQL, p.args(q.Revision))
		}
		if err != nil {
			return 0, backend.Clock{}, err
		}
	}
	if !all.any {
		clock, err := b.Clock(ctx)
		return 0, clock, err
	}
	return all.count, all.clock, nil
}

// hasLong reports whether any row has a long key.
func hasLong(rows []backend.Row) bool {
	for i := range rows {
		if long(rows[i].Key) {
			return true
		}
	}
	return false
}
