package backendtest

import (
	"errors"

	"github.com/sqlstore/sqlstore/backend"
)

func (p *pair) checkTail(got backend.Tail, want backend.Tail) {
	p.Helper()
	var rows, wantRows []backend.Row
	for i, c := range got.Changes {
		rows = append(rows, c.Row)
		if i < len(want.Changes) {
			w := want.Changes[i].Prev
			if (c.Prev == nil) != (w == nil) || w != nil && !same(*c.Prev, *w) {
				p.Errorf("change %d has another previous row", i)
			}
		}
	}
	for _, c := range want.Changes {
		wantRows = append(wantRows, c.Row)
	}
	p.compare("tail", rows, wantRows, false)
	got.Changes, want.Changes = nil, nil
	if got.Clock != want.Clock || got.Through != want.Through || got.Base != want.Base || got.Batch != want.Batch ||
		got.Purged != want.Purged {
		p.Errorf("tail %+v, want %+v", got, want)
	}
}

func testTail(p *pair) {
	one := p.write(p.a, 11, put("a", "1"), put("b", "1"), put("c", "1"))
	two := p.write(p.other, 12, put("a", "2"))
	three := p.write(p.a, 13, del("b"), put("d", ""))
	for _, c := range []struct {
		q    backend.TailQuery
		want backend.Tail
	}{
		{
			backend.TailQuery{After: 1, Limit: 100},
			backend.Tail{Through: 4, Batch: 13, Changes: changes(one, two, three)},
		},
		{backend.TailQuery{After: 1, Limit: 1}, backend.Tail{Through: 2, Batch: 11, Changes: changes(one)}},
		{backend.TailQuery{After: 2, Limit: 1}, backend.Tail{Through: 3, Base: 11, Batch: 12, Changes: changes(two)}},
		{
			backend.TailQuery{After: 2, Limit: 2},
			backend.Tail{Through: 4, Base: 11, Batch: 13, Changes: changes(two, three)},
		},
		{backend.TailQuery{After: 1, Limit: 100, Bytes: 1}, backend.Tail{Through: 2, Batch: 11, Changes: changes(one)}},
		{backend.TailQuery{After: 1, Limit: 100, Bytes: 6}, backend.Tail{Through: 2, Batch: 11, Changes: changes(one)}},
		{
			backend.TailQuery{After: 1, Limit: 100, Bytes: 7},
			backend.Tail{Through: 3, Batch: 12, Changes: changes(one, two)},
		},
		{backend.TailQuery{After: 1, Limit: 1, Bytes: 1}, backend.Tail{Through: 2, Batch: 11, Changes: changes(one)}},
		{
			backend.TailQuery{After: 1, Limit: 1, Bytes: 1, WithPrev: true},
			backend.Tail{Through: 2, Batch: 11, Changes: changes(one)},
		},
		{
			backend.TailQuery{After: 1, Limit: 100, Bytes: 9},
			backend.Tail{Through: 4, Batch: 13, Changes: changes(one, two, three)},
		},
		{
			backend.TailQuery{After: 1, Limit: 100, Until: 3},
			backend.Tail{Through: 3, Batch: 12, Changes: changes(one, two)},
		},
		{backend.TailQuery{After: 3, Limit: 100, Until: 3}, backend.Tail{Through: 3, Base: 12, Batch: 12}},
		{
			backend.TailQuery{After: 1, Limit: 100, KeysOnly: true},
			backend.Tail{Through: 4, Batch: 13, Changes: bare(one, two, three)},
		},
		{
			backend.TailQuery{After: 1, Limit: 100, KeysOnly: true, Bytes: 4},
			backend.Tail{Through: 3, Batch: 12, Changes: bare(one, two)},
		},
		{backend.TailQuery{After: 4, Limit: 10}, backend.Tail{Through: 4, Base: 13, Batch: 13}},
		{backend.TailQuery{After: 9, Limit: 10}, backend.Tail{Through: 9}},
	} {
		c.want.Clock = p.m.clock
		got, err := p.other.Tail(p.ctx, c.q)
		p.ok(err)
		p.checkTail(got, c.want)
	}
	got, err := p.other.Tail(p.ctx, backend.TailQuery{After: 2, Limit: 10, WithPrev: true})
	p.ok(err)
	want := backend.Tail{Clock: p.m.clock, Through: 4, Base: 11, Batch: 13, Changes: changes(two, three)}
	want.Changes[0].Prev, want.Changes[1].Prev = &one[0], &one[1]
	p.checkTail(got, want)
	before := got.Alarms
	p.apply(&backend.Effects{Raised: []backend.Alarm{{Member: 1, Kind: 1}}})
	raised, err := p.other.Tail(p.ctx, backend.TailQuery{After: 4, Limit: 10})
	p.ok(err)
	p.apply(&backend.Effects{Cleared: []backend.Alarm{{Member: 1, Kind: 1}}})
	cleared, err := p.other.Tail(p.ctx, backend.TailQuery{After: 4, Limit: 10})
	p.ok(err)
	if raised.Alarms <= before || cleared.Alarms <= raised.Alarms {
		p.Errorf("alarms %d, raised %d, cleared %d", before, raised.Alarms, cleared.Alarms)
	}
}

// testTailOfBump reads the tail of a clock that has skipped revisions, as after a repair.
func testTailOfBump(p *pair) {
	one := p.write(p.a, 11, put("a", "1"))
	tx, err := p.a.Begin(p.ctx, backend.Needs{})
	p.ok(err)
	p.ok(tx.Commit(p.ctx, &backend.Effects{Revision: 100, Compacted: 100, Batch: 12}))
	p.m.clock.Revision, p.m.clock.Compacted = 100, 100
	check := func(after int64, want backend.Tail) {
		p.Helper()
		got, err := p.other.Tail(p.ctx, backend.TailQuery{After: after, Limit: 10})
		p.ok(err)
		want.Clock = p.m.clock
		p.checkTail(got, want)
	}
	check(1, backend.Tail{Through: 100, Batch: 12, Changes: changes(one)})
	check(2, backend.Tail{Through: 100, Base: 11, Batch: 12})
	check(100, backend.Tail{Through: 100, Batch: 12})
	two := p.write(p.a, 13, put("a", "2"))
	check(100, backend.Tail{Through: 101, Batch: 13, Changes: changes(two)})
}

// bare are the changes without their values.
func bare(txns ...[]backend.Row) (out []backend.Change) {
	out = changes(txns...)
	for i := range out {
		out[i].Row.Value = nil
	}
	return out
}

func changes(txns ...[]backend.Row) (out []backend.Change) {
	for _, rows := range txns {
		for _, r := range rows {
			out = append(out, backend.Change{Row: r})
		}
	}
	return out
}

func testTailInBegin(p *pair) {
	one := p.write(p.a, 11, put("a", "1"))
	two := p.write(p.a, 12, put("b", "1"))
	tx, err := p.other.Begin(p.ctx,
		backend.Needs{Keys: [][]byte{[]byte("a")}, Tail: &backend.TailQuery{After: 2, Limit: 10}})
	p.ok(err)
	p.checkTail(tx.Loaded().Tail,
		backend.Tail{Clock: p.m.clock, Through: 3, Base: 11, Batch: 12, Changes: changes(two)})
	p.compare("keys beside it", tx.Loaded().Rows, one, false)
	tx.Rollback()
	three := p.write(p.a, 13, put("a", "2"), put("c", "1"))
	for _, bytes := range []int64{0, 1} {
		tx, err := p.other.Begin(p.ctx, backend.Needs{Tail: &backend.TailQuery{After: 3, Limit: 1, Bytes: bytes}})
		p.ok(err)
		p.checkTail(tx.Loaded().Tail,
			backend.Tail{Clock: p.m.clock, Through: 4, Base: 12, Batch: 13, Changes: changes(three)})
		tx.Rollback()
	}
	tx, err = p.other.Begin(p.ctx, backend.Needs{})
	p.ok(err)
	defer tx.Rollback()
	for _, keysOnly := range []bool{false, true} {
		want := changes(one, two, three)
		if keysOnly {
			want = bare(one, two, three)
		}
		got, err := tx.(backend.SharedTx).Tail(p.ctx, backend.TailQuery{After: 1, Limit: 10, KeysOnly: keysOnly})
		p.ok(err)
		p.checkTail(got, backend.Tail{Clock: p.m.clock, Through: 4, Batch: 13, Changes: want})
	}
	tx.Rollback()
	if _, err := tx.(backend.SharedTx).Tail(p.ctx, backend.TailQuery{After: 1, Limit: 10}); !errors.Is(err,
		backend.ErrUnavailable) {
		p.Errorf("a transaction that has ended reads: %v", err)
	}
}

func testTailPurged(p *pair) {
	p.commit([]op{put("a", "1")}, []op{put("a", "2")}, []op{put("a", "3")})
	p.compact(3)
	purged := func() int64 {
		tail, err := p.other.Tail(p.ctx, backend.TailQuery{After: 1, Limit: 10})
		p.ok(err)
		return tail.Purged
	}
	if n := purged(); n > 0 {
		p.Errorf("purged %d before a purge", n)
	}
	p.purge(10)
	if n := purged(); n != 3 {
		p.Errorf("purged %d after a purge at 3", n)
	}
}

func testHead(p *pair) {
	head := func(batch, alarms int64) {
		p.Helper()
		for _, s := range []backend.Shared{p.a, p.other} {
			got, err := s.Head(p.ctx)
			p.ok(err)
			if got.Clock != p.m.clock || got.Batch != batch || got.Alarms != alarms {
				p.Errorf("head %+v, want batch %d, alarms %d at %+v", got, batch, alarms, p.m.clock)
			}
		}
	}
	first, err := p.a.Head(p.ctx)
	p.ok(err)
	head(0, first.Alarms)
	p.write(p.a, 11, put("a", "1"))
	head(11, first.Alarms)
	p.write(p.other, 12, put("a", "2"))
	head(12, first.Alarms)
	p.apply(&backend.Effects{Compacted: 2, Batch: 13}) // which moves no revision
	head(12, first.Alarms)
	p.apply(&backend.Effects{Raised: []backend.Alarm{{Member: 1, Kind: 1}}, Batch: 14})
	now, err := p.other.Head(p.ctx)
	p.ok(err)
	if now.Alarms <= first.Alarms {
		p.Errorf("the alarms' number is %d after %d", now.Alarms, first.Alarms)
	}
}

func testRaiseEpoch(p *pair) {
	p.write(p.a, 11, put("a", "1"))
	p.write(p.a, 12, put("a", "2"))
	now := p.m.clock
	for _, c := range []struct {
		what  string
		known backend.Clock
		batch int64
		raise int64
	}{
		{"all as it was", backend.Clock{Revision: 3, Epoch: now.Epoch}, 12, 0},
		{"others wrote since", backend.Clock{Revision: 2, Epoch: now.Epoch}, 11, 0},
		{"the clock fell back", backend.Clock{Revision: 4, Epoch: now.Epoch}, 13, 1},
		{"seen already", backend.Clock{Revision: 4, Epoch: now.Epoch}, 13, 1},
		{"another batch", backend.Clock{Revision: 3, Epoch: now.Epoch + 1}, 99, 2},
		{"a row where there was none", backend.Clock{Revision: 2, Epoch: now.Epoch + 2}, 0, 3},
		{"the epoch fell back", backend.Clock{Revision: 2, Epoch: now.Epoch + 8}, 11, 9},
		{"raised meanwhile", backend.Clock{Revision: 9, Epoch: now.Epoch + 8}, 1, 9},
	} {
		got, err := p.other.RaiseEpoch(p.ctx, c.known, c.batch)
		p.ok(err)
		want := now
		want.Epoch += c.raise
		if got != want {
			p.Errorf("%s: clock %+v, want %+v", c.what, got, want)
		}
		if again, err := p.a.Clock(p.ctx); err != nil || again != want {
			p.Errorf("%s: the other sees %+v, %v; want %+v", c.what, again, err, want)
		}
	}
}
