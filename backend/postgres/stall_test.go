package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// staller is a proxy whose connection stalls from a statement on, as one through a firewall that has forgotten it.
type staller struct {
	seen    atomic.Bool // the statement
	armed   atomic.Bool
	stalled chan struct{} // closed when the connection stalls
	marker  []byte        // of the statement
}

func (p *staller) pass(c, s net.Conn) {
	passUntil(c, s, func(sent []byte) bool {
		if !bytes.Contains(sent, p.marker) {
			return false
		}
		p.seen.Store(true)
		if !p.armed.CompareAndSwap(true, false) {
			return false
		}
		close(p.stalled)
		return true
	})
}

// passUntil connects a client and a server until stalls returns true for what the client has sent. From then on, it
// passes nothing to the server.
func passUntil(c, s net.Conn, stalls func(sent []byte) bool) {
	go func() {
		_, _ = io.Copy(c, s)
		_ = c.Close()
	}()
	sent := make([]byte, 64<<10)
	for {
		n, err := c.Read(sent)
		if err != nil {
			return
		}
		if stalls(sent[:n]) {
			_, _ = io.Copy(io.Discard, c)
			return
		}
		if _, err := s.Write(sent[:n]); err != nil {
			return
		}
	}
}

// TestColdGetsBesideStalledOne gets rows that are not in memory while the connection of another such get is stalled.
func TestColdGetsBesideStalledOne(t *testing.T) {
	t.Parallel()
	p := &staller{stalled: make(chan struct{}), marker: []byte("WITH ORDINALITY")}
	b := openTest(t, Config{DSN: proxied(t, database(t, "default_query_exec_mode", "exec"), p.pass)})
	s, err := store.Open(t.Context(), b, store.Config{CacheBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, key := range []string{"a", "b"} {
		if _, err := s.Put(t.Context(), &store.PutRequest{Key: []byte(key), Value: []byte("value")}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "gets use the index, and read only rows", func() bool {
		_, err := s.Range(t.Context(), &store.RangeRequest{Key: []byte("b"), Serializable: true})
		return err == nil && p.seen.Load()
	})
	p.armed.Store(true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Range(t.Context(), &store.RangeRequest{Key: []byte("a"), Serializable: true})
	}()
	<-p.stalled
	for range 3 {
		res, err := s.Range(t.Context(), &store.RangeRequest{Key: []byte("b"), Serializable: true})
		if err != nil || len(res.Rows) != 1 || string(res.Rows[0].Value) != "value" {
			t.Errorf("beside a get that hangs: %+v, %v", res, err)
		}
	}
	select {
	case <-ended:
		t.Error("a get waited until the one that hangs had ended")
	default:
	}
}

// TestHeadBesideStalledConnection reads the head and the tail while the connection of such a read is stalled, or all
// connections are that were made before.
func TestHeadBesideStalledConnection(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(context.Context, *Backend) error{
		"head": func(ctx context.Context, b *Backend) error { _, err := b.Head(ctx); return err },
		"tail": func(ctx context.Context, b *Backend) error {
			_, err := b.Tail(ctx, backend.TailQuery{Limit: 1, Bytes: 1})
			return err
		},
	} {
		one := &staller{stalled: make(chan struct{}), marker: []byte("c.batch")}
		all := &forgetful{}
		for stalled, c := range map[string]struct {
			pass func(c, s net.Conn)
			arm  func()

			stalled func() bool
		}{
			"one": {one.pass, func() { one.armed.Store(true) }, func() bool { return !one.armed.Load() }},
			"all": {all.pass, func() { all.forgotten.Store(true) }, all.stalled.Load},
		} {
			t.Run(name+", "+stalled, func(t *testing.T) {
				t.Parallel()
				dsn := proxied(t, database(t, "default_query_exec_mode", "exec"), c.pass)
				b := openTest(t, Config{DSN: dsn, MaxConns: minConns})
				fill(t, b.control)
				c.arm()
				ctx, cancel := context.WithTimeout(t.Context(), readTimeout-time.Second)
				defer cancel()
				if err := read(ctx, b); err != nil {
					t.Error(err)
				}
				if !c.stalled() {
					t.Error("no connection stalled")
				}
			})
		}
	}
}

// forgetful is a proxy that stalls the connections which were made before it forgot them.
type forgetful struct{ forgotten, stalled atomic.Bool }

func (p *forgetful) pass(c, s net.Conn) {
	known := p.forgotten.Load()
	passUntil(c, s, func([]byte) bool {
		if known == p.forgotten.Load() {
			return false
		}
		p.stalled.Store(true)
		return true
	})
}

// TestHeadBesideBusyLane reads the head while other statements use all connections of the lane: none hangs.
func TestHeadBesideBusyLane(t *testing.T) {
	t.Parallel()
	b := openTest(t, Config{DSN: database(t), MaxConns: minConns})
	open := acquireAll(t, b.control)
	ctx, cancel := context.WithTimeout(t.Context(), 2*headPatience)
	defer cancel()
	if _, err := b.Head(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a head was read: %v", err)
	}
	for _, c := range open {
		c.Release()
	}
	if _, err := b.Head(t.Context()); err != nil {
		t.Error(err)
	}
}
