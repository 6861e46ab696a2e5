package postgres

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// tap is a proxy that counts clients' round trips: each ends with a message that makes the server send its answers.
type tap struct {
	trips atomic.Int64
}

// newTap returns a tap, and the DSN that leads through it.
func newTap(t *testing.T, dsn string) (*tap, string) {
	t.Helper()
	tap := &tap{}
	return tap, proxied(t, dsn, tap.pass)
}

func (p *tap) pass(c, s net.Conn) {
	go func() {
		_, _ = io.Copy(c, s)
		_ = c.Close()
	}()
	r := bufio.NewReader(c)
	for first := true; ; first = false {
		kind := byte(0)
		if !first { // the first message has no type
			var err error
			if kind, err = r.ReadByte(); err != nil {
				return
			}
		}
		head, err := r.Peek(4)
		if err != nil {
			return
		}
		if kind == 'S' || kind == 'H' || kind == 'Q' { // Sync, Flush, Query
			p.trips.Add(1)
		}
		if !first {
			if _, err := s.Write([]byte{kind}); err != nil {
				return
			}
		}
		if _, err := io.CopyN(s, r, int64(binary.BigEndian.Uint32(head))); err != nil {
			return
		}
	}
}

// TestTwoRoundTrips counts those of a write, once its statements are prepared.
func TestTwoRoundTrips(t *testing.T) {
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			count, dsn := newTap(t, database(t, "default_query_exec_mode", mode))
			b := openTest(t, Config{DSN: dsn})
			tx := begin(t, b, backend.Needs{})
			if err := tx.Commit(t.Context(),
				&backend.Effects{Batch: 1, Revision: 1, Granted: []backend.Lease{{ID: 7, TTL: 1e12}}}); err != nil {
				t.Fatal(err)
			}
			write := func(revision int64) {
				t.Helper()
				tx := begin(t, b, backend.Needs{
					Keys:  [][]byte{[]byte("a"), []byte("b")},
					Spans: []backend.Span{{Start: []byte("c"), End: []byte("d")}}, SpanLimit: 10,
					LeaseKeys: []int64{7}, Leases: []int64{7},
					Tail: &backend.TailQuery{After: revision - 1, Limit: 10, WithPrev: true},
				})
				if err := tx.Commit(t.Context(), row("a", revision)); err != nil {
					t.Fatal(err)
				}
			}
			write(2) // statements are prepared at their first use
			for revision := int64(3); revision < 8; revision++ {
				before := count.trips.Load()
				write(revision)
				if n := count.trips.Load() - before; n != 2 {
					t.Errorf("a write took %d round trips", n)
				}
			}
		})
	}
}
