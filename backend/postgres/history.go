package postgres

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// historyWindow limits the number of revisions that one call scans for the rows of a span, so that its duration does
// not depend on how rare they are. Through reports how far the scan came.
const historyWindow = 8192

// History implements [backend.Backend].
func (b *Backend) History(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	form, span := historyForm(q.Span)
	until := int64(math.MaxInt64)
	if q.Until > 0 {
		until = q.Until
	}
	if form == historyBounded || form == historyUnbounded {
		until = min(until, q.After+historyWindow)
	}
	r := reader{prev: q.WithPrev, value: !q.KeysOnly, bytes: q.Bytes}
	h := backend.History{}
	sql, args := underPin(q.Pin, historySQL[form][index(q.WithPrev)][index(q.KeysOnly)],
		append([]any{q.After, until, int64(max(q.Limit, 1))}, span...))
	reset := func() { r.reset(); h.Clock = backend.Clock{} }
	err := b.laneForMany(ctx).query(ctx, "read history", reset, func(s *scanner) error {
		h.Clock = s.clock()
		r.change(s, h.Clock)
		return nil
	}, sql, args...)
	if err != nil {
		return backend.History{}, err
	}
	h.Changes, h.Through = r.changes, r.through(q.After, min(until, h.Clock.Revision), q.Limit)
	return h, nil
}

// supersededRows returns those of the rows ($1, $2) that are not the newest of their key at revision $3, or no longer
// exist. Each LATERAL is one search of an index, which no plan turns into a join of the whole table.
var supersededRows = withClock("SELECT n.resource_version, n.ordinal FROM unnest($1::bigint[], $2::integer[]) " +
	"AS n(resource_version, ordinal) LEFT JOIN LATERAL (SELECT key, resource_version, ordinal " +
	"FROM object_versions AS o WHERE o.resource_version = n.resource_version AND o.ordinal = n.ordinal LIMIT 1) AS v " +
	"ON true LEFT JOIN LATERAL (SELECT resource_version, ordinal FROM object_versions AS o WHERE o.key = v.key " +
	"AND o.resource_version <= $3::bigint ORDER BY o.resource_version DESC, o.ordinal DESC LIMIT 1) AS l " +
	"ON true WHERE v.key IS NULL OR (l.resource_version, l.ordinal) > (v.resource_version, v.ordinal)")

// Superseded implements [backend.Backend].
func (b *Backend) Superseded(
	ctx context.Context, q backend.SupersededQuery,
) (ids []backend.RowID, clock backend.Clock, err error) {
	revisions, ordinals := idColumns(q.Rows)
	sql, args := underPin(q.Pin, supersededRows, []any{revisions, ordinals, q.Revision})
	reset := func() { ids, clock = ids[:0], backend.Clock{} }
	err = b.laneForMany(ctx).query(ctx, "read which rows are superseded", reset, func(s *scanner) error {
		if clock = s.clock(); !s.null() {
			ids = append(ids, backend.RowID{ModRevision: s.integer(), Ordinal: int32(s.integer())})
		}
		return nil
	}, sql, args...)
	slices.SortFunc(ids, backend.RowID.Compare)
	return ids, clock, err
}

// Head implements [backend.Shared].
func (b *Backend) Head(ctx context.Context) (backend.Head, error) {
	h, err := hedged(ctx, b, headPatience, func(ctx context.Context, l lane) (h backend.Head, err error) {
		reset := func() { h = backend.Head{} }
		err = l.query(ctx, "read the clock", reset, func(s *scanner) error { h = head(s); return nil },
			b.features.head)
		return h, err
	}, func(ctx context.Context) (h backend.Head, err error) {
		err = b.queryApart(ctx, func(s *scanner) error { h = head(s); return nil }, b.features.head)
		return h, err
	})
	if err == nil {
		b.servers.answeredBy(h.Origin)
		err = found(h.Clock)
	}
	return h, err
}

// head reads the columns of features.head.
func head(s *scanner) backend.Head {
	return backend.Head{Clock: s.clock(), Batch: s.integer(), Alarms: s.integer(), Origin: s.origin()}
}

// Tail implements [backend.Shared].
func (b *Backend) Tail(ctx context.Context, q backend.TailQuery) (backend.Tail, error) {
	t, err := hedged(ctx, b, tailPatience, func(ctx context.Context, l lane) (*tailReader, error) {
		t := newTailReader(q)
		return t, l.query(ctx, "read the tail", t.reset, t.scan, t.sql(&b.features), t.args()...)
	}, func(ctx context.Context) (*tailReader, error) {
		t := newTailReader(q)
		return t, b.queryApart(ctx, t.scan, t.sql(&b.features), t.args()...)
	})
	if err == nil {
		b.servers.answeredBy(t.t.Origin)
		err = found(t.t.Clock)
	}
	if err != nil {
		return backend.Tail{}, err
	}
	return t.tail(), nil
}

// reader collects changes.
type reader struct {
	changes     []backend.Change
	prev, value bool
	bytes       int64 // byte limit: ends with the revision that reaches it, 0 for none
	read        int64 // bytes
	cut         bool  // the server had more than the limit
	batch       int64 // of the last change
}

func (r *reader) reset() { r.changes, r.batch, r.read, r.cut = nil, 0, 0, false }

// change reads the columns of a change, or the NULLs that stand for none.
func (r *reader) change(s *scanner, clock backend.Clock) {
	if r.cut || s.null() {
		return
	}
	var ch backend.Change
	s.row(&ch.Row, false)
	if n := len(r.changes); n > 0 && reached(r.read, r.bytes) && r.changes[n-1].Row.ModRevision != ch.Row.ModRevision {
		r.cut = true
		return
	}
	r.batch = s.integer()
	if r.value {
		s.value(&ch.Row)
	}
	r.read += ch.Row.Size()
	switch {
	case !r.prev:
	case !s.null():
		ch.Prev = new(backend.Row)
		s.row(ch.Prev, r.value)
		r.read += ch.Prev.Size()
	case ch.Row.PrevRevision != 0 && ch.Row.ModRevision > clock.Compacted && s.err == nil: // it cannot be purged yet
		s.err = damaged("the index of keys does not lead to the row of revision %d, which revision %d supersedes",
			ch.Row.PrevRevision, ch.Row.ModRevision)
	}
	r.changes = append(r.changes, ch)
}

// reached reports whether read has reached the limit bytes; 0 means no limit.
func reached(read, bytes int64) bool { return bytes > 0 && read >= bytes }

// through returns the revision up to which the changes are complete, provided that nothing was read above until.
func (r *reader) through(after, until int64, limit int) int64 {
	byRow := func(a, b backend.Change) int { return a.Row.ID().Compare(b.Row.ID()) }
	if !slices.IsSortedFunc(r.changes, byRow) {
		slices.SortFunc(r.changes, byRow)
	}
	if n := len(r.changes); n > 0 && (n >= limit || r.cut) {
		return r.changes[n-1].Row.ModRevision
	}
	return max(after, until)
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

func historyForm(s backend.Span) (form int, args []any) {
	switch {
	case len(s.Start) == 0 && s.End == nil: // all keys; no key is empty
		return historyAll, nil
	case s.End == nil:
		return historyOfKey, []any{indexed(s.Start)}
	case len(s.End) != 0:
		if bytes.Equal(s.End, append(slices.Clip(s.Start), 0)) {
			return historyOfKey, []any{notNil(indexed(s.Start))}
		}
		return historyBounded, []any{notNil(s.Start), s.End}
	case bytes.Compare(s.Start, []byte{0}) <= 0: // [NUL, no bound) is everything, as etcd's clients write it
		return historyAll, nil
	}
	return historyUnbounded, []any{notNil(s.Start)}
}

// tailReader reads the answer to a tail query.
type tailReader struct {
	reader
	q     backend.TailQuery
	t     backend.Tail
	moved int64 // the batch that last moved the clock
}

func newTailReader(q backend.TailQuery) *tailReader {
	return &tailReader{reader: reader{prev: q.WithPrev, value: !q.KeysOnly}, q: q}
}

func (t *tailReader) reset() {
	t.reader.reset()
	t.t, t.moved = backend.Tail{}, 0
}

func (t *tailReader) sql(f *features) string { return f.tail[index(t.q.WithPrev)][index(t.q.KeysOnly)] }

func (t *tailReader) args() []any {
	return []any{t.q.After, t.until(), int64(max(t.q.Limit, 1)), orAll(t.q.Bytes)}
}

func (t *tailReader) until() int64 { return orAll(t.q.Until) }

// orAll returns the limit n, or the maximum if n is 0 or less, which means no limit.
func orAll(n int64) int64 {
	if n <= 0 {
		return math.MaxInt64
	}
	return n
}

func (t *tailReader) scan(s *scanner) error {
	t.t.Clock, t.moved = s.clock(), s.integer()
	t.t.Alarms, t.t.Base, t.t.Purged = s.integer(), s.integer(), s.integer()
	t.t.Origin = s.origin()
	t.change(s, t.t.Clock)
	return nil
}

func (t *tailReader) tail() backend.Tail {
	t.cut = reached(t.read, t.q.Bytes) // the server sends no more
	t.t.Through = t.through(t.q.After, min(t.until(), t.t.Clock.Revision), t.q.Limit)
	t.t.Changes = t.changes
	last, batch := t.q.After, t.t.Base
	if n := len(t.changes); n > 0 {
		last, batch = t.changes[n-1].Row.ModRevision, t.batch
	}
	if t.t.Clock.Revision == t.t.Through && (last < t.t.Through || batch == 0) {
		batch = t.moved // without rows, as a repair does
	}
	t.t.Batch = batch
	return t.t
}
