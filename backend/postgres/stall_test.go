package postgres

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"

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
		if bytes.Contains(sent[:n], p.marker) {
			p.seen.Store(true)
			if p.armed.CompareAndSwap(true, false) {
				close(p.stalled)
				_, _ = io.Copy(io.Discard, c)
				return
			}
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
