package world

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/test/support/history"
)

// watcher watches a prefix for the whole run, on one stream after another and on any replica. It continues after what
// it has seen, or lists again if that is compacted or lost.
type watcher struct {
	*rand.Rand
	w      *World
	prefix string
	slow   bool // it takes a pause now and then, until it has to catch up
	stays  int  // the only replica it uses, -1 for any

	mu    sync.Mutex
	parts []*part
}

// part is what a watch saw without a break, from a revision on.
type part struct {
	from    int64
	events  []history.Event
	through int64 // the last revision that it knows to be complete
	resumed bool  // it continues where the one before ended
	at      time.Time
}

// run watches until ctx ends.
func (v *watcher) run(ctx context.Context) {
	from := int64(1)
	resumed := false
	for ctx.Err() == nil {
		r := v.w.replicas[max(v.stays, 0)]
		if v.stays < 0 {
			r = v.w.replicas[v.IntN(len(v.w.replicas))]
		}
		a := r.api()
		if a == nil {
			time.Sleep(time.Second)
			continue
		}
		p := &part{from: from, through: from - 1, resumed: resumed, at: time.Now()}
		v.mu.Lock()
		v.parts = append(v.parts, p)
		v.mu.Unlock()
		again := v.stream(ctx, a, p)
		if from, resumed = p.through+1, true; again || v.w.plan.kind == Asynchronous { // what it saw may be lost
			from, resumed = v.list(ctx), false
		}
	}
}

// list waits for a list and returns the revision after it.
func (v *watcher) list(ctx context.Context) int64 {
	for ctx.Err() == nil {
		if a := v.w.replicas[max(v.stays, 0)].api(); a != nil {
			limited, cancel := context.WithTimeout(ctx, opTimeout)
			var o history.Op
			err := a.read(limited, &store.RangeRequest{Key: []byte("k/"), Limit: 1}, &o)
			cancel()
			if err == nil {
				return o.Revision + 1
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return 1
}

// stream watches on one stream, for a while or until it ends. It reports whether the client has to list again.
func (v *watcher) stream(ctx context.Context, a api, p *part) (again bool) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(5+v.IntN(40))*time.Second)
	defer cancel()
	st, err := a.watch(limited, v.prefix, p.from, v.slow)
	if err != nil {
		time.Sleep(time.Second)
		return false
	}
	defer st.close()
	for {
		if v.slow && !v.w.recovering.Load() && v.IntN(10) == 0 {
			time.Sleep(upTo(v.Rand, 3*time.Second))
		}
		if v.IntN(10) == 0 {
			st.requestProgress()
		}
		r, err := st.next(limited)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			return false
		}
		v.w.trace.note("watch "+v.prefix, uint64(r.revision), uint64(len(r.events)))
		if r.canceled {
			return true
		}
		v.take(p, r)
	}
}

// take records a response.
func (v *watcher) take(p *part, r *response) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range r.events {
		p.events = append(p.events, e)
		p.through = max(p.through, e.Revision)
	}
	if !r.created && len(r.events) == 0 {
		p.through = max(p.through, r.revision)
	}
}

func eventOf(r *store.Row) history.Event {
	return history.Event{
		Key: string(r.Key), Value: trimmed(r.Value), Deleted: r.Deleted, Revision: r.ModRevision,
		Create: r.CreateRevision, Version: r.Version, Lease: r.Lease,
	}
}

// seen returns the last revision that the watcher knows to be complete.
func (v *watcher) seen() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.parts) == 0 {
		return 0
	}
	return v.parts[len(v.parts)-1].through
}

// of returns the events of a prefix from one revision to another, both included.
func of(events []history.Event, prefix string, from, to int64) (some []history.Event) {
	for _, e := range events {
		if e.Revision >= from && e.Revision <= to && strings.HasPrefix(e.Key, prefix) {
			some = append(some, e)
		}
	}
	return some
}
