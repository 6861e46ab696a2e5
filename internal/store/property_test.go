package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// world is an engine, its model and the watches that observe it.
type world struct {
	t        testing.TB
	backends []backend.Backend // over one database
	cfg      Config
	tokens   chan struct{} // of slowLoad, or nil
	all      []*Store      // one over each of backends
	s        *Store        // the one that gets the next request
	m        *model
	g        *generator
	streams  []*WatchStream
	watches  []*watched
	log      []string
}

// watched is one watch and the events it has shown.
type watched struct {
	st       *WatchStream
	id       int64
	req      WatchRequest
	from     int64
	got      []Event
	seen     int // how many events check has compared
	canceled bool
}

// small sets limits so low that the engine does everything it does when memory is short.
func small(cfg Config) Config {
	cfg.CacheBytes, cfg.WindowBytes, cfg.WatcherBytes, cfg.loadRows = 100, 1000, 600, slowRows
	return cfg
}

// seeds returns the seeds of a random test: few, or as many as SQLSTORE_TEST_LENGTH specifies. The name of each test
// includes its seed.
func seeds(tb testing.TB, few int) (all []uint64) {
	tb.Helper()
	for n := range uint64(env.Length.Count(tb, few)) {
		all = append(all, n)
	}
	return all
}

// TestRandomRequestsAgainstModel sends random requests one after another and expects the model's answers.
func TestRandomRequestsAgainstModel(t *testing.T) {
	t.Parallel()
	for _, variant := range []struct {
		name     string
		cfg      Config
		slow     bool
		replicas int
	}{
		{"index", Config{}, false, 0},
		{"index, small", small(Config{}), false, 0},
		{"no index, small", small(Config{DisableIndex: true}), false, 0},
		{"index loads, small", small(Config{}), true, 0},
		{"replicas", Config{}, false, 3},
		{"replicas, small", small(Config{}), false, 2},
		{"replicas, no index, small", small(Config{DisableIndex: true}), false, 2},
	} {
		t.Run(variant.name, func(t *testing.T) {
			few := 6
			if variant.replicas > 0 { // on Postgres a step takes much longer
				few = 1
			}
			for _, seed := range seeds(t, few) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					w := newWorld(t, variant.cfg, variant.slow, variant.replicas, randomBytes(seed, 6000))
					for !w.g.done() && !t.Failed() {
						w.step()
					}
					w.checkAll()
				})
			}
		})
	}
}

func newWorld(t testing.TB, cfg Config, slow bool, replicas int, data []byte) *world {
	w := &world{t: t, cfg: cfg, m: newModel()}
	if replicas > 0 {
		w.backends = openShared(t, replicas)
	} else {
		w.backends = []backend.Backend{openSQLite(t)}
	}
	if slow {
		f, tokens := slowLoad(w.backends[0])
		w.backends[0], w.tokens = f, tokens
	}
	w.g = &generator{dice: &dice{data}, m: w.m}
	w.open()
	t.Cleanup(func() {
		if t.Failed() {
			for _, line := range w.log[max(0, len(w.log)-5):] {
				t.Log(line)
			}
		}
		w.close()
	})
	return w
}

func (w *world) open() {
	w.all, w.streams, w.watches = nil, nil, nil
	for _, b := range w.backends {
		s, err := Open(w.t.Context(), b, w.cfg)
		if err != nil {
			w.t.Fatal(err)
		}
		w.all = append(w.all, s)
		for range 2 {
			w.streams = append(w.streams, s.NewWatchStream())
		}
	}
	w.s = w.all[0]
}

func (w *world) close() {
	for _, s := range w.all {
		_ = s.Close()
	}
}

// choose picks the replica that gets the next request, and waits until all replicas are up to date.
func (w *world) choose(ctx context.Context) {
	if len(w.all) == 1 {
		return
	}
	w.s = w.all[w.g.roll(len(w.all))]
	for _, s := range w.all {
		if err := s.confirm(ctx); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) same(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("at revision %d: %s\n got %s\nwant %s", w.m.rev, what, got, want)
	}
}

func (w *world) step() {
	ctx := within(w.t)
	if w.tokens != nil && w.g.oneIn(4) {
		select {
		case w.tokens <- struct{}{}:
		default:
		}
	}
	w.choose(ctx)
	switch w.g.roll(20) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		w.txn(ctx)
	case 8, 9, 10:
		r := w.g.rangeRequest()
		w.note("range %+v", r)
		got, err := w.s.Range(ctx, r)
		want, wantErr := w.m.rangeAt(r)
		w.same(fmt.Sprintf("%+v", r), rangeText(got, err), rangeText(want, wantErr))
	case 11:
		w.stream(ctx)
	case 12:
		w.compact(ctx)
	case 13:
		w.lease(ctx)
	case 14, 15:
		w.watch()
	case 16, 17:
		w.poll(w.streams[w.g.roll(len(w.streams))], 1+w.g.roll(5))
	case 18:
		w.cancel()
	case 19:
		if w.g.oneIn(3) {
			w.reopen()
		}
	}
	if rev := w.s.Revision(); rev != w.m.rev {
		w.t.Fatalf("the store is at revision %d, the model at %d", rev, w.m.rev)
	}
}

func (w *world) txn(ctx context.Context) {
	t := w.g.txn(2, map[string]bool{})
	w.note("txn %s", requestText(t))
	got, err := w.s.Txn(ctx, t)
	want, wantErr := w.m.txn(t)
	w.same(requestText(t), txnText(got, err), txnText(want, wantErr))
}

func (w *world) stream(ctx context.Context) {
	r := w.g.rangeRequest()
	r.Target, r.Order, r.MinModRev, r.MaxModRev, r.MinCreateRev, r.MaxCreateRev = 0, 0, 0, 0, 0, 0
	var rows []*Row
	got, err := w.s.RangeStream(ctx, r, func(part []*Row, _ bool) error {
		if len(part) == 0 {
			w.t.Error("an empty chunk")
		}
		rows = append(rows, part...)
		return nil
	})
	if err == nil {
		got.Rows = rows
	}
	want, wantErr := w.m.rangeAt(r)
	w.same(fmt.Sprintf("stream of %+v", r), rangeText(got, err), rangeText(want, wantErr))
}

func (w *world) compact(ctx context.Context) {
	rev := max(1, w.m.rev+1-int64(w.g.roll(20)))
	physical := w.g.oneIn(2)
	w.note("compact %d, physical %v", rev, physical)
	_, err := w.s.Compact(ctx, rev, physical)
	w.same(fmt.Sprintf("compact %d", rev), errorText(err), errorText(w.m.compact(rev)))
}

func (w *world) lease(ctx context.Context) {
	switch id := w.g.lease(); w.g.roll(4) {
	case 0, 1:
		id = int64(len(w.g.leases) + 1)
		l, err := w.s.LeaseGrant(ctx, id, 1000)
		w.same("grant", errorText(err), "ok")
		w.same("revision of a grant", fmt.Sprint(l.Revision), fmt.Sprint(w.m.rev))
		w.m.leases[id] = true
		w.g.leases = append(w.g.leases, id)
	case 2:
		w.note("revoke %d", id)
		rev, err := w.s.LeaseRevoke(ctx, id)
		w.same("revoke", errorText(err), errorText(w.m.revoke(id)))
		if err == nil {
			w.same("revision of a revocation", fmt.Sprint(rev), fmt.Sprint(w.m.rev))
		}
	case 3:
		l, keys, err := w.s.LeaseTimeToLive(ctx, id, true)
		if !w.m.leases[id] {
			w.same("keys of no lease", errorText(err), errorText(ErrLeaseNotFound))
			return
		}
		w.same("keys of a lease", fmt.Sprintf("%q at %d", keys, l.Revision),
			fmt.Sprintf("%q at %d", w.m.leaseKeys(id), w.m.rev))
	}
}

func (w *world) watch() {
	st := w.streams[w.g.roll(len(w.streams))]
	x := &watched{st: st, req: w.g.watchRequest()}
	w.note("watch %+v", x.req)
	st.Watch(x.req)
	r := w.nextControl(st)
	if len(x.req.End) > 0 && string(x.req.End) != "\x00" && slices.Compare(x.req.End, x.req.Key) <= 0 {
		if !errors.Is(r.Err, ErrWatchEmptyRange) || r.ID != -1 || !r.Canceled {
			w.t.Errorf("an empty range returned %+v", r)
		}
		return
	}
	if !r.Created || r.Canceled || r.Revision != w.m.rev {
		w.t.Errorf("created as %+v", r)
	}
	x.id, x.from = r.ID, x.req.StartRevision
	if x.from == 0 {
		x.from = w.m.rev + 1
	}
	if x.from < w.m.compacted {
		if r := w.nextControl(st); r.ID != x.id || !r.Canceled || r.CompactRevision != w.m.compacted ||
			r.Revision != 0 {
			w.t.Errorf("a compacted start revision returned %+v", r)
		}
		return
	}
	w.watches = append(w.watches, x)
}

// nextControl returns the next response that has no events. It also takes the events before it.
func (w *world) nextControl(st *WatchStream) *WatchResponse {
	w.t.Helper()
	for {
		r := next(w.t, st)
		if !w.receive(st, r) {
			return r
		}
	}
}

func (w *world) cancel() {
	if len(w.watches) == 0 {
		return
	}
	x := w.watches[w.g.roll(len(w.watches))]
	if x.canceled {
		return
	}
	w.note("cancel %d", x.id)
	x.st.Cancel(x.id)
	r := w.nextControl(x.st) // also if a compaction cancels it first
	if r.ID != x.id || !r.Canceled {
		w.t.Fatalf("canceled as %+v", r)
	}
	x.canceled = true
}

// missing counts the events that the watches of a stream have yet to show.
func (w *world) missing(st *WatchStream) (n int) {
	for _, x := range w.watches {
		if x.st == st && !x.canceled {
			n += w.m.countEvents(&x.req, x.from) - len(x.got)
		}
	}
	return n
}

// poll takes up to n responses, as long as events are missing.
func (w *world) poll(st *WatchStream, n int) {
	for range n {
		if w.missing(st) == 0 {
			return
		}
		if r := next(w.t, st); !w.receive(st, r) {
			w.t.Errorf("unexpected response: %+v", r)
		}
	}
}

// receive records events and the end of a watch whose events are compacted. It returns false for any other response.
func (w *world) receive(st *WatchStream, r *WatchResponse) bool {
	w.t.Helper()
	i := slices.IndexFunc(w.watches, func(x *watched) bool { return x.st == st && x.id == r.ID && !x.canceled })
	if r.Created || i < 0 {
		return false
	}
	x := w.watches[i]
	if r.Canceled && r.CompactRevision > 0 {
		x.canceled = true
		missing := w.m.events(&x.req, x.from)[len(x.got):]
		if r.CompactRevision > w.m.compacted || r.Revision != 0 || len(missing) == 0 && w.m.rev < r.CompactRevision {
			w.t.Errorf("watch %+v canceled, compacted at %d: %+v", x.req, w.m.compacted, r)
		}
		return true
	}
	if r.Canceled || len(r.Events) == 0 {
		return false
	}
	for n, e := range r.Events {
		if len(x.got) > 0 && n == 0 && x.got[len(x.got)-1].Row.ModRevision >= e.Row.ModRevision {
			w.t.Errorf("revision %d is split over responses or repeated", e.Row.ModRevision)
		}
		if e.Row.ModRevision > r.Revision {
			w.t.Errorf("a response of revision %d shows %s", r.Revision, eventText(e))
		}
		x.got = append(x.got, e)
	}
	w.check(x)
	return true
}

// check compares what a watch has shown since the last check with the model's history.
func (w *world) check(x *watched) {
	w.t.Helper()
	want := w.m.events(&x.req, x.from)
	for ; x.seen < len(x.got); x.seen++ {
		if x.seen >= len(want) {
			w.t.Fatalf("watch %+v shows an extra event: %s", x.req, eventText(x.got[x.seen]))
		}
		got, want := x.got[x.seen], want[x.seen]
		if got.Prev == nil && want.Row.ModRevision <= w.m.compacted {
			want.Prev = nil // may be compacted
		}
		if eventText(got) != eventText(want) {
			w.t.Fatalf("watch %+v from %d\n got %s\nwant %s", x.req, x.from, eventText(got), eventText(want))
		}
	}
}

// settle takes events until every watch has all of them, and then requests progress, which must follow them.
func (w *world) settle() {
	for _, st := range w.streams {
		for w.missing(st) > 0 && !w.t.Failed() {
			if r := next(w.t, st); !w.receive(st, r) {
				w.t.Errorf("unexpected response: %+v", r)
			}
		}
		w.progress(st)
	}
}

func (w *world) progress(st *WatchStream) {
	answers := func() bool {
		watches := 0
		for _, x := range w.watches {
			if x.st == st && !x.canceled {
				watches++
				if x.from > w.m.rev+1 {
					return false // starts in the future: no response
				}
			}
		}
		return watches > 0
	}
	for answers() && !w.t.Failed() { // no response while a watch is unsynced: ask again
		st.RequestProgress()
		ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Millisecond)
		r, err := st.Next(ctx)
		cancel()
		if err != nil {
			continue
		}
		if r.ID == -1 {
			w.same("progress", fmt.Sprint(r.Revision, len(r.Events)), fmt.Sprint(w.m.rev, 0))
			return
		}
		if !w.receive(st, r) {
			w.t.Errorf("unexpected response: %+v", r)
		}
	}
}

func (w *world) reopen() {
	w.note("reopen")
	w.settle()
	for _, s := range w.all {
		if err := s.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	w.open()
}

// checkAll compares the whole history that is still readable.
func (w *world) checkAll() {
	w.settle()
	if w.tokens != nil {
		close(w.tokens)
	}
	for rev := max(1, w.m.compacted); rev <= w.m.rev && !w.t.Failed(); rev++ {
		r := &RangeRequest{Key: []byte{0}, End: []byte{0}, Revision: rev}
		got, err := w.s.Range(within(w.t), r)
		want, wantErr := w.m.rangeAt(r)
		w.same(fmt.Sprintf("all at %d", rev), rangeText(got, err), rangeText(want, wantErr))
	}
}

// requestText returns a transaction in a readable form.
func requestText(t *Txn) string {
	text := "if"
	for _, c := range t.Compare {
		text += fmt.Sprintf(" [%q,%q) target %d result %d %d %q;", c.Key, c.End, c.Target, c.Result, c.Number, c.Value)
	}
	for _, branch := range [][]Op{t.Success, t.Failure} {
		text += " {"
		for _, op := range branch {
			switch {
			case op.Range != nil:
				text += fmt.Sprintf("range %+v; ", *op.Range)
			case op.Put != nil:
				text += fmt.Sprintf("put %+v; ", *op.Put)
			case op.Delete != nil:
				text += fmt.Sprintf("delete %q %q; ", op.Delete.Key, op.Delete.End)
			case op.Txn != nil:
				text += requestText(op.Txn) + "; "
			}
		}
		text += "}"
	}
	return text
}
