package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// cutter is a proxy that breaks a connection behind a row of an answer.
type cutter struct {
	// behind is called, once, before the connection breaks behind a row that contains marker.
	behind atomic.Pointer[func()]
	marker []byte
}

// newCutter returns a cutter, and the DSN that leads through it.
func newCutter(t *testing.T, dsn, marker string) (*cutter, string) {
	t.Helper()
	cut := &cutter{marker: []byte(marker)}
	return cut, proxied(t, dsn, cut.pass)
}

func (p *cutter) pass(c, s net.Conn) {
	go func() {
		_, _ = io.Copy(s, c)
		_ = s.Close()
	}()
	for {
		var head [5]byte // type and length
		if _, err := io.ReadFull(s, head[:]); err != nil {
			return
		}
		message := make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
		copy(message, head[:])
		if _, err := io.ReadFull(s, message[len(head):]); err != nil {
			return
		}
		if _, err := c.Write(message); err != nil {
			return
		}
		if head[0] == 'D' && bytes.Contains(message, p.marker) {
			if f := p.behind.Swap(nil); f != nil {
				(*f)()
				return
			}
		}
	}
}

// TestNextAttemptForgets breaks the connection in the middle of an answer. The next attempt finds what another server
// has, which lacks the row that came and the clock.
func TestNextAttemptForgets(t *testing.T) {
	t.Parallel()
	all := backend.Span{Start: []byte{0}, End: []byte{}}
	for name, read := range map[string]func(b *Backend) ([]backend.Row, backend.Clock, error){
		"rows": func(b *Backend) ([]backend.Row, backend.Clock, error) {
			return b.Rows(t.Context(), []backend.RowID{{ModRevision: 2}, {ModRevision: 3}}, 0)
		},
		"rows within bytes": func(b *Backend) ([]backend.Row, backend.Clock, error) {
			return b.Rows(t.Context(), []backend.RowID{{ModRevision: 2}, {ModRevision: 3}}, 1<<20)
		},
		"range": func(b *Backend) ([]backend.Row, backend.Clock, error) {
			return b.Range(t.Context(), backend.RangeQuery{Span: all, Revision: 3, Limit: 10})
		},
		"history": func(b *Backend) ([]backend.Row, backend.Clock, error) {
			h, err := b.History(t.Context(), backend.HistoryQuery{Limit: 10})
			return rowsOf(h.Changes), h.Clock, err
		},
		"tail": func(b *Backend) ([]backend.Row, backend.Clock, error) {
			tail, err := b.Tail(t.Context(), backend.TailQuery{After: 1, Limit: 10})
			return rowsOf(tail.Changes), tail.Clock, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := database(t)
			cut, through := newCutter(t, dsn, "lost-key")
			b := openTest(t, Config{DSN: through})
			for i, key := range []string{"lost-key", "next"} {
				if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row(key, int64(2+i))); err != nil {
					t.Fatal(err)
				}
			}
			lose := func() { admin(t, dsn, "DELETE FROM clock") }
			cut.behind.Store(&lose)
			rows, clock, err := read(b)
			for _, r := range rows {
				if r.Key != nil {
					t.Errorf("row %q of the failed attempt", r.Key)
				}
			}
			if clock != (backend.Clock{}) || err != nil && !errors.Is(err, backend.ErrNoClock) {
				t.Errorf("clock %+v of the failed attempt, %v", clock, err)
			}
			if cut.behind.Load() != nil {
				t.Error("the connection has not broken")
			}
		})
	}
}

func rowsOf(changes []backend.Change) (rows []backend.Row) {
	for i := range changes {
		rows = append(rows, changes[i].Row)
	}
	return rows
}
