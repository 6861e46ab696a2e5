package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// done is a request and its answer.
type done[Q, A any] struct {
	req Q
	res A
}

// TestConcurrentRequestsAgainstModel sends random transactions from many goroutines at once, while others list, watch
// and compact. The revisions of the answers show the order in which the transactions ran, and the model replays them in
// that order.
func TestConcurrentRequestsAgainstModel(t *testing.T) {
	t.Parallel()
	for _, variant := range []struct {
		name    string
		cfg     Config
		slow    bool
		compact bool
		shared  bool
		trails  bool
	}{
		{"index", Config{}, false, false, false, false},
		{"index, compacted", Config{}, false, true, false, false},
		{"index, small, compacted", small(Config{}), false, true, false, false},
		{"no index, small", small(Config{DisableIndex: true}), false, false, false, false},
		{"index loads, small", small(Config{}), true, false, false, false},
		{"index loads, small, compacted", small(Config{}), true, true, false, false},
		{"replicas", Config{}, false, false, true, false},
		{"replicas, small, compacted", small(Config{}), false, true, true, false},
		{"replicas, no index, small", small(Config{DisableIndex: true}), false, false, true, false},
		{"replicas that trail", Config{}, false, true, true, true},
		{"replicas that trail, no index, small", small(Config{DisableIndex: true}), false, true, true, true},
	} {
		t.Run(variant.name, func(t *testing.T) {
			few := 2
			if variant.shared { // on Postgres a transaction takes much longer
				few = 1
			}
			for _, seed := range seeds(t, few) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					if variant.shared {
						var all []*Store
						for _, b := range openShared(t, 3) {
							if variant.trails {
								b = &lagging{Shared: b.(backend.Shared)}
							}
							s := openStore(t, b, variant.cfg)
							<-s.Verified() // until then, requests may fail
							all = append(all, s)
						}
						run := &concurrent{t: t, all: all, seed: seed, beat: make(chan struct{})}
						run.run(variant.compact)
						return
					}
					b := openSQLite(t)
					if variant.slow {
						fill(t, b)
						f, tokens := slowLoad(b)
						b = f
						go func() {
							for tokens <- struct{}{}; t.Context().Err() == nil; {
								select {
								case tokens <- struct{}{}:
								case <-t.Context().Done():
								}
							}
						}()
					}
					run := &concurrent{
						t: t, all: []*Store{openStore(t, b, variant.cfg)}, seed: seed,
						beat: make(chan struct{}),
					}
					run.run(variant.compact)
				})
			}
		})
	}
}

// fill writes some keys with an engine that it then closes.
func fill(t *testing.T, b backend.Backend) {
	s, err := Open(t.Context(), b, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range genKeys {
		put(t, s, k, "from before")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

type concurrent struct {
	t    *testing.T
	all  []*Store // replicas over one database
	seed uint64

	beat   chan struct{} // signals a completed transaction: time to read or to compact
	mu     sync.Mutex
	txns   []done[*Txn, *TxnResult]
	ranges []done[*RangeRequest, *RangeResult]
	pages  []done[*RangeRequest, *RangeResult]
}

// store returns one of the replicas.
func (c *concurrent) store(n uint64) *Store { return c.all[n%uint64(len(c.all))] }

func (c *concurrent) run(compact bool) {
	first := c.store(0).Revision()
	m := newModel()
	for _, k := range genKeys {
		if r := get(c.t, c.store(0), k, 0); r != nil {
			m.rows = append(m.rows, *r)
		}
	}
	slices.SortFunc(m.rows, func(a, b Row) int { return int(a.ModRevision - b.ModRevision) })
	m.rev = first

	var watchers, readers, writers sync.WaitGroup
	written, begin := make(chan struct{}), make(chan struct{})
	consumers := make([]*consumer, 4)
	for i := range consumers {
		x := newConsumer(c.t, c.store(uint64(i)), c.seed*100+uint64(i))
		consumers[i] = x
		start := begin
		if i%2 == 1 {
			start = written // slow: takes nothing until all writes are done
		}
		watchers.Go(func() { x.run(start, written) })
	}
	for i := range uint64(6) {
		writers.Go(func() { c.write(c.seed*100 + i) })
	}
	for i := range uint64(2) {
		readers.Go(func() { c.read(c.seed*100+50+i, written) })
	}
	if compact {
		readers.Go(func() { c.compact(written) })
	}
	close(begin)
	writers.Wait()
	close(written)
	readers.Wait()
	watchers.Wait()
	if c.t.Failed() {
		return
	}
	c.replay(m)
	m.compacted = c.store(0).Compacted()
	for _, x := range consumers {
		x.check(m)
	}
}

func (c *concurrent) write(seed uint64) {
	g := &generator{dice: &dice{randomBytes(seed, 1500)}}
	for !g.done() {
		t := g.txn(1, map[string]bool{})
		res, err := c.store(seed).Txn(within(c.t), t)
		if errors.Is(err, ErrKeyNotFound) {
			continue
		}
		if err != nil {
			c.t.Error(err)
			return
		}
		c.mu.Lock()
		c.txns = append(c.txns, done[*Txn, *TxnResult]{t, res})
		c.mu.Unlock()
		select {
		case c.beat <- struct{}{}:
		default:
		}
	}
}

func (c *concurrent) read(seed uint64, written <-chan struct{}) {
	for round := uint64(0); ; round++ {
		select {
		case <-written:
			return
		case <-c.beat:
		}
		g := &generator{dice: &dice{randomBytes(seed*1000+round, 100)}}
		r := g.rangeRequest()
		res, err := c.store(seed+round).Range(within(c.t), r)
		if err != nil {
			c.t.Error(err) // the current revision can always be read
			return
		}
		c.mu.Lock()
		c.ranges = append(c.ranges, done[*RangeRequest, *RangeResult]{r, res})
		c.mu.Unlock()
		if round%8 == 0 {
			c.list(c.store(seed+round+1), res.Revision)
		}
	}
}

// list reads everything at one revision in small pages.
func (c *concurrent) list(s *Store, rev int64) {
	r := &RangeRequest{Key: []byte{0}, End: []byte{0}, Limit: 3, Revision: rev}
	for more := true; more; {
		res, err := s.Range(within(c.t), r)
		if errors.Is(err, ErrCompacted) { // the database knows of a compaction before the store does
			eventually(c.t, "the compaction that a read has met", func() bool {
				return s.confirm(within(c.t)) == nil && s.Compacted() > rev
			})
			return
		}
		if err != nil {
			c.t.Error(err)
			return
		}
		c.mu.Lock()
		c.pages = append(c.pages, done[*RangeRequest, *RangeResult]{r, res})
		c.mu.Unlock()
		if more = res.More; more {
			next := *r
			next.Key = append(slices.Clone(res.Rows[len(res.Rows)-1].Key), 0)
			r = &next
		}
	}
}

func (c *concurrent) compact(written <-chan struct{}) {
	for {
		select {
		case <-written:
			return
		case <-c.beat:
		}
		s := c.store(0)
		rev := s.Revision() - 5
		if rev <= s.Compacted() {
			continue
		}
		if _, err := s.Compact(within(c.t), rev, true); err != nil {
			c.t.Error(err)
			return
		}
	}
}

// replay runs the transactions on the model in the order of their revisions. At each revision, the one that wrote comes
// before those that did not.
func (c *concurrent) replay(m *model) {
	slices.SortStableFunc(c.txns, func(a, b done[*Txn, *TxnResult]) int {
		if n := a.res.Revision - b.res.Revision; n != 0 {
			return int(n)
		}
		return int(wrote(b.res)) - int(wrote(a.res))
	})
	for _, d := range c.txns {
		if wrote(d.res) > 0 && d.res.Revision != m.rev+1 {
			c.t.Fatalf("revision %d follows %d", d.res.Revision, m.rev)
		}
		want, err := m.txn(d.req)
		if got, want := txnText(d.res, nil), txnText(want, err); got != want {
			c.t.Fatalf("%s\n got %s\nwant %s", requestText(d.req), got, want)
		}
	}
	for _, s := range c.all {
		if err := s.confirm(within(c.t)); err != nil || m.rev != s.Revision() {
			c.t.Fatalf("the store is at revision %d (%v), the model at %d", s.Revision(), err, m.rev)
		}
	}
	for _, d := range c.ranges {
		want := m.at(d.res.Revision).rangeOf(d.req, d.res.Revision)
		if got, want := rangeText(d.res, nil), rangeText(want, nil); got != want {
			c.t.Fatalf("%+v\n got %s\nwant %s", d.req, got, want)
		}
	}
	for _, d := range c.pages {
		want := m.at(d.req.Revision).rangeOf(d.req, d.res.Revision)
		if got, want := rangeText(d.res, nil), rangeText(want, nil); got != want {
			c.t.Fatalf("%+v\n got %s\nwant %s", d.req, got, want)
		}
	}
}

// wrote counts the rows that a transaction changed.
func wrote(r *TxnResult) (n int64) {
	for _, o := range r.Results {
		switch {
		case o.Put != nil:
			n++
		case o.Delete != nil:
			n += o.Delete.Deleted
		case o.Txn != nil:
			n += wrote(o.Txn)
		}
	}
	return n
}

// consumer is one stream with some watches, and the responses it received.
type consumer struct {
	t        *testing.T
	s        *Store
	st       *WatchStream
	g        *generator
	watches  map[int64]*watched
	progress []progressed
}

// progressed is a progress response and the number of events that each watch had shown before it.
type progressed struct {
	rev  int64
	seen map[int64]int
}

func newConsumer(t *testing.T, s *Store, seed uint64) *consumer {
	x := &consumer{
		t: t, s: s, st: s.NewWatchStream(), watches: map[int64]*watched{},
		g: &generator{dice: &dice{randomBytes(seed, 4000)}},
	}
	for len(x.watches) < 4 {
		req := x.g.watchRequest()
		req.Key = []byte(genKeys[len(x.watches)])
		if req.End != nil {
			req.End = []byte{0}
		}
		x.st.Watch(req)
		r := next(t, x.st)
		if !r.Created {
			t.Fatalf("got %+v", r)
		}
		x.watches[r.ID] = &watched{id: r.ID, req: req, from: r.Revision + 1}
	}
	return x
}

// run takes responses from start on, until all writes are done and a progress response covers the last revision.
func (x *consumer) run(start, written <-chan struct{}) {
	defer x.st.Close()
	<-start
	ctx, stop := context.WithCancel(within(x.t))
	defer stop()
	go func() { // the stream may not answer: keep asking
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			x.st.RequestProgress()
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	for last := false; !x.over() && (!last || !x.finished()); {
		select {
		case <-written:
			if err := x.s.confirm(ctx); err != nil {
				x.t.Error(err)
				return
			}
			last = true
		default:
		}
		r, err := x.st.Next(ctx)
		switch {
		case err != nil:
			x.t.Error("a watch did not finish:", err)
			return
		case r.ID == -1:
			x.note(r)
		default:
			x.receive(r)
		}
	}
}

// over reports whether compactions have canceled all watches, so that no further response follows.
func (x *consumer) over() bool {
	for _, w := range x.watches {
		if !w.canceled {
			return false
		}
	}
	return true
}

func (x *consumer) finished() bool {
	for _, w := range x.watches {
		if !w.canceled {
			return len(x.progress) > 0 && x.progress[len(x.progress)-1].rev == x.s.Revision()
		}
	}
	return true
}

func (x *consumer) note(r *WatchResponse) {
	p := progressed{r.Revision, map[int64]int{}}
	for id, w := range x.watches {
		if !w.canceled {
			p.seen[id] = len(w.got)
		}
	}
	x.progress = append(x.progress, p)
}

func (x *consumer) receive(r *WatchResponse) {
	w := x.watches[r.ID]
	if r.Canceled && r.CompactRevision > 0 {
		w.canceled = true
		return
	}
	if len(r.Events) == 0 {
		x.t.Errorf("unexpected response: %+v", r)
		return
	}
	if n := len(w.got); n > 0 && w.got[n-1].Row.ModRevision >= r.Events[0].Row.ModRevision {
		x.t.Errorf("revision %d is split over responses or repeated", r.Events[0].Row.ModRevision)
	}
	w.got = append(w.got, r.Events...)
}

func (x *consumer) check(m *model) {
	for _, w := range x.watches {
		want := m.events(&w.req, w.from)
		if len(w.got) > len(want) || len(w.got) < len(want) && !w.canceled {
			x.t.Fatalf("watch %+v shows %d of %d events, canceled: %v", w.req, len(w.got), len(want), w.canceled)
		}
		for i, got := range w.got {
			want := want[i]
			if got.Prev == nil && want.Row.ModRevision <= m.compacted {
				want.Prev = nil // may have been compacted
			}
			if eventText(got) != eventText(want) {
				x.t.Fatalf("watch %+v from %d\n got %s\nwant %s", w.req, w.from, eventText(got), eventText(want))
			}
		}
		for _, p := range x.progress {
			seen, ok := p.seen[w.id]
			if !ok {
				continue
			}
			due := 0
			for _, e := range want {
				if e.Row.ModRevision <= p.rev {
					due++
				}
			}
			if seen < due {
				x.t.Fatalf("watch %+v: progress to revision %d after %d of %d events", w.req, p.rev, seen, due)
			}
		}
	}
}
