package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// sent is an update as its writer knows it.
type sent struct {
	revision  int64
	at, acked time.Time
}

// seen is an event as a watcher received it.
type seen struct {
	revision int64
	at       time.Time
}

// watchPhases are updates without watchers, then with, both in a closed loop; the difference in CPU is the cost of
// delivering the events. At a fixed rate that difference would be less than the cost of an idle scheduler, so there all
// CPU, including the updates', is divided by the events.
func (c *config) watchPhases() []*phase {
	all := []*phase{{name: "watch", run: func(ctx context.Context, t *target) (*outcome, error) {
		l := load{clients: c.clients, span: c.span}
		plain, _, err := t.updatesFor(ctx, l, 1)
		if err != nil {
			return nil, err
		}
		out, updates, err := t.deliver(ctx, l)
		if err != nil {
			return nil, err
		}
		out.used = out.used.since(plain.used.scaled(float64(updates) / float64(plain.ops)))
		return out, nil
	}}}
	if c.rate > 0 {
		all = append(all, &phase{name: "watch@rate", run: func(ctx context.Context, t *target) (*outcome, error) {
			out, _, err := t.deliver(ctx, load{clients: c.clients, span: c.span, rate: c.rate})
			return out, err
		}})
	}
	return all
}

// deliver updates objects while they are watched. An operation is an event delivered to a watcher, and its latency
// counts from when the update was sent.
func (t *target) deliver(ctx context.Context, l load) (out *outcome, updates int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ws, err := t.openWatchers(ctx, t.c.watchers, t.conns)
	if err != nil {
		return nil, 0, err
	}
	watched, writes, err := t.updatesFor(ctx, l, 1, ws...)
	if err != nil {
		return nil, 0, err
	}
	out = &outcome{wall: watched.wall, used: watched.used}
	for _, w := range ws {
		came, err := w.check(writes)
		if err != nil {
			return nil, 0, err
		}
		for i, at := range came {
			out.latency = append(out.latency, at.Sub(writes[i].at))
		}
	}
	out.ops = len(out.latency)
	return out, watched.ops, nil
}

// updatesFor updates objects, waits until every watcher has received the events, and returns what was written. It uses
// only one of every n of the target's clients.
func (t *target) updatesFor(ctx context.Context, l load, every int, ws ...*watcher) (*outcome, []sent, error) {
	before, err := t.used()
	if err != nil {
		return nil, nil, err
	}
	u, began := t.newUpdates(), time.Now()
	writes := make([][]sent, l.clients)
	out, err := report(l.run(ctx, func(ctx context.Context, n int) (bool, error) {
		at := time.Now()
		rev, err := u.one(ctx, n*every)
		if rev > 0 {
			writes[n] = append(writes[n], sent{rev, at, time.Now()})
		}
		return rev > 0, err
	}))
	if err != nil {
		return nil, nil, err
	}
	for _, w := range ws {
		if err := w.await(ctx, out.ops); err != nil {
			return nil, nil, err
		}
	}
	if len(ws) > 0 {
		out.wall = time.Since(began)
	}
	time.Sleep(t.c.settle)
	after, err := t.used()
	out.used = after.since(before)
	return out, slices.Concat(writes...), err
}

// watcher is one watch of all objects on its own stream.
type watcher struct {
	t      *target
	stream grpc.ClientStream

	mu     sync.Mutex
	events []seen
	err    error
	change chan struct{} // has capacity one; signals that something above changed
}

// openWatchers opens n watches, over these connections in turn.
func (t *target) openWatchers(ctx context.Context, n int, conns []*grpc.ClientConn) ([]*watcher, error) {
	// kube-apiserver watches from the revision after its list.
	now, err := t.kv(0).Range(ctx, &pb.RangeRequest{Key: objectKey(0), Limit: 1})
	if err != nil {
		return nil, err
	}
	var ws []*watcher
	for i := range n {
		s, err := conns[i%len(conns)].NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
			pb.Watch_Watch_FullMethodName)
		if err != nil {
			return nil, err
		}
		req := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
			Key: []byte(objectsDir), RangeEnd: objectsEnd, PrevKv: true, ProgressNotify: true,
			StartRevision: now.Header.Revision + 1,
		}}}
		if err := s.SendMsg(req); err != nil {
			return nil, err
		}
		w := &watcher{t: t, stream: s, change: make(chan struct{}, 1)}
		res := watchReply{event: func(*kv, *kv) error { return t.wrong("an event before the watch was created") }}
		if err := s.RecvMsg(&res); err != nil {
			return nil, err
		}
		if !res.created || res.canceled {
			return nil, t.wrong("watch refused: %s", res.reason)
		}
		go w.receive()
		ws = append(ws, w)
	}
	return ws, nil
}

func (w *watcher) receive() {
	res := watchReply{event: func(cur, prev *kv) error {
		if !bytes.HasPrefix(cur.key, []byte(objectsDir)) || len(cur.value) != w.t.c.value ||
			len(prev.value) != w.t.c.value {
			return w.t.wrong("event on %s: value of %d bytes, previous one of %d", cur.key, len(cur.value),
				len(prev.value))
		}
		if !w.t.canned && (!bytes.Equal(cur.key, prev.key) || prev.mod >= cur.mod || prev.stamp() != cur.stamp()) {
			return w.t.wrong("event on %s at %d has previous %s at %d", cur.key, cur.mod, prev.key, prev.mod)
		}
		w.mu.Lock()
		w.events = append(w.events, seen{cur.mod, time.Now()})
		w.mu.Unlock()
		return nil
	}}
	var err error
	for err == nil {
		res.canceled = false
		err = w.stream.RecvMsg(&res)
		if err == nil && res.canceled {
			err = w.t.wrong("watch canceled: %s", res.reason)
		}
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
		select {
		case w.change <- struct{}{}:
		default:
		}
	}
}

// lostAfter is how long to wait for more events after the last update and the last event.
const lostAfter = 20 * time.Second

// errLost is returned for a watcher that never received some events.
var errLost = errors.New("lost events")

// await waits until n events have arrived.
func (w *watcher) await(ctx context.Context, n int) error {
	late := time.NewTimer(lostAfter)
	defer late.Stop()
	for before := 0; ; {
		w.mu.Lock()
		have, err := len(w.events), w.err
		w.mu.Unlock()
		switch {
		case err != nil:
			return fmt.Errorf("watch: %w", err)
		case have >= n:
			return nil
		case have > before: // progress notifications also signal a change
			late.Reset(lostAfter)
			before = have
		}
		select {
		case <-w.change:
		case <-late.C:
			return fmt.Errorf("%w: %w", errLost, w.t.wrong("a watcher saw %d of %d events", have, n))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// check compares what the watcher saw with what was written, which it sorts by revision, and returns when each event
// arrived.
func (w *watcher) check(writes []sent) ([]time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(writes, func(a, b sent) int { return int(a.revision - b.revision) })
	if len(w.events) != len(writes) {
		return nil, w.t.wrong("a watcher saw %d events of %d", len(w.events), len(writes))
	}
	at := make([]time.Time, len(writes))
	for i, e := range w.events {
		if e.revision != writes[i].revision {
			return nil, w.t.wrong("a watcher's event %d has revision %d, should be %d", i, e.revision,
				writes[i].revision)
		}
		at[i] = e.at
	}
	return at, nil
}
