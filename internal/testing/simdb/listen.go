package simdb

import (
	"context"
	"slices"
	"time"
)

// Waits between two attempts to connect for notifications, and how long it takes to notice that a connection is dead.
const (
	firstWait, longestWait = 100 * time.Millisecond, 5 * time.Second
	quietTime              = 5 * time.Second
)

// listener is a connection that receives notifications.
type listener struct {
	client *Client
	hints  chan [2]int64
}

// Hint implements [backend.Shared].
func (b *Client) Hint(ctx context.Context, revision, compacted int64) error {
	return b.read(ctx, "hint", func(s *server, _ *state) error {
		for _, l := range s.run.hears {
			if l.client != b {
				l.notify(s.run, [2]int64{revision, compacted})
			}
		}
		return nil
	})
}

// notify sends a notification on its way. Callers hold Cluster.mu.
func (l *listener) notify(r *run, hint [2]int64) {
	fate := l.client.fate("notify")
	if fate.Lost || l.client.cluster.cut[link{l.client.number, r.server.number}] {
		return
	}
	send := func() {
		select {
		case l.hints <- hint:
		default:
		}
	}
	if d := fate.Before + fate.After; d > 0 {
		time.AfterFunc(d, send)
		return
	}
	send()
}

// Listen implements [backend.Shared].
func (b *Client) Listen(ctx context.Context, hint func(revision, compacted int64), state func(listening bool)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait, told := firstWait, false
	for ctx.Err() == nil && !b.isClosed() {
		if r, err := b.connect(ctx); err == nil {
			wait, told = firstWait, false
			b.hear(ctx, r, hint, state)
		}
		if ctx.Err() == nil && !b.isClosed() && !told {
			told = true
			state(false)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		case <-b.closing:
		}
		wait = min(2*wait, longestWait)
	}
}

// hear receives notifications until the connection breaks or turns out to be dead. It reports that it listens once it
// can miss no further hint.
func (b *Client) hear(
	ctx context.Context, r *run, hint func(revision, compacted int64), state func(listening bool),
) {
	c := b.cluster
	l := &listener{b, make(chan [2]int64, 64)}
	c.do(func() { r.hears = append(r.hears, l) })
	defer c.do(func() {
		r.hears = slices.DeleteFunc(slices.Clone(r.hears), func(o *listener) bool { return o == l })
	})
	state(true)
	for {
		quiet := time.NewTimer(quietTime)
		select {
		case h := <-l.hints:
			hint(h[0], h[1])
		case <-quiet.C:
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			err := b.reach(ctx, r)
			cancel()
			if err != nil || !b.leadsTo(r) {
				return
			}
		case <-r.ended:
			return
		case <-b.closing:
			return
		case <-ctx.Done():
			return
		}
		quiet.Stop()
	}
}

// leadsTo reports whether the connections lead to a server.
func (b *Client) leadsTo(r *run) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conn == r || b.conn == nil
}
