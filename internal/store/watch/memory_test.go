package watch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// memory is a store with its whole history in memory. It commits rows, publishes them to its hub, and answers the hub's
// queries in place of the database.
type memory struct {
	*Hub
	// Set before the first stream is opened:
	cold                      bool         // superseded rows are published without their values
	beforeHistory, beforeRows func() error // called with each query; an error is the answer

	writing sync.Mutex // before mu
	mu      sync.Mutex
	clock   backend.Clock
	rows    []backend.Row // of all revisions, in order
}

// open makes a memory and its hub, which closes with the test. Zero bounds mean the store's defaults.
func open(tb testing.TB, cfg Config) *memory {
	tb.Helper()
	m := &memory{clock: backend.Clock{Revision: 1, Epoch: 1}}
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	def(&cfg.WindowBytes, 8<<20)
	def(&cfg.WatcherBytes, 4<<20)
	def(&cfg.WatchBytes, 32<<20)
	if cfg.ProgressInterval == 0 {
		cfg.ProgressInterval = time.Hour
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var background sync.WaitGroup
	cfg.History, cfg.Revision = m, m.revision
	cfg.Start = func(f func()) bool {
		background.Go(f)
		return true
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.Hub = New(ctx, m.clock, cfg)
	background.Go(m.Run)
	tb.Cleanup(func() {
		cancel()
		m.Close()
		background.Wait()
	})
	return m
}

func (m *memory) revision() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock.Revision
}

// put writes one key and returns the revision.
func (m *memory) put(key, value string) int64 {
	return m.commit(backend.Row{Key: []byte(key), Value: []byte(value)})
}

// many writes keys 0 to n-1 with values of the given size, the given number of keys per revision.
func (m *memory) many(n, keys, bytes int) {
	for i := 0; i < n; i += keys {
		var rows []backend.Row
		for j := i; j < min(n, i+keys); j++ {
			rows = append(rows, backend.Row{Key: fmt.Appendf(nil, "k%06d", j), Value: make([]byte, bytes)})
		}
		m.commit(rows...)
	}
}

// commit writes rows at the next revision, publishes them and returns the revision. Rows need only keys, values and
// tombstones.
func (m *memory) commit(rows ...backend.Row) int64 {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	m.clock.Revision++
	rev := m.clock.Revision
	items, prevs := make([]*index.Item, len(rows)), make([]*index.Item, len(rows))
	for i, r := range rows {
		r.ModRevision, r.Ordinal = rev, int32(i)
		if prev := m.newest(r.Key, rev); prev != nil {
			r.PrevRevision = prev.ModRevision
		}
		if prev := m.newest(r.Key, rev-1); prev != nil {
			prevs[i] = m.item(*prev)
		}
		m.rows = append(m.rows, r)
		items[i] = index.NewItem(r)
	}
	m.mu.Unlock()
	m.Publish(items, prevs, rev, 0)
	return rev
}

// item returns a superseded row as it is published.
func (m *memory) item(r backend.Row) *index.Item {
	if m.cold {
		return index.NewBareItem(r)
	}
	return index.NewItem(r)
}

// compact makes a revision the oldest that can be read.
func (m *memory) compact(revision int64) {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	m.clock.Compacted = revision
	clock := m.clock
	m.mu.Unlock()
	m.Publish(nil, nil, clock.Revision, clock.Compacted)
}

// lose removes everything above a revision, like a failover. It does not notify the hub.
func (m *memory) lose(above int64) backend.Clock {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock.Revision = above
	m.clock.Epoch++
	m.rows = m.rows[:m.after(above)]
	return m.clock
}

// newest returns the live row of a key at a revision, or nil. Callers hold mu.
func (m *memory) newest(key []byte, revision int64) *backend.Row {
	for i := m.after(revision) - 1; i >= 0; i-- {
		switch r := &m.rows[i]; {
		case !bytes.Equal(r.Key, key):
		case r.Deleted:
			return nil
		default:
			return r
		}
	}
	return nil
}

// after returns the index of the first row above a revision. Callers hold mu.
func (m *memory) after(revision int64) int {
	return sort.Search(len(m.rows), func(i int) bool { return m.rows[i].ModRevision > revision })
}

// History returns the rows of a span in revision order; see [backend.Backend].
func (m *memory) History(_ context.Context, q backend.HistoryQuery) (backend.History, error) {
	if m.beforeHistory != nil {
		if err := m.beforeHistory(); err != nil {
			return backend.History{}, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := backend.History{Clock: m.clock, Through: max(q.After, min(q.Until, m.clock.Revision))}
	for i := m.after(q.After); i < m.after(out.Through); i++ {
		r := m.rows[i]
		if n := len(out.Changes); n > 0 && out.Changes[n-1].Row.ModRevision != r.ModRevision &&
			(n >= q.Limit || q.Bytes <= 0) {
			out.Through = r.ModRevision - 1
			break
		}
		if !inSpan(q.Span, r.Key) {
			continue
		}
		q.Bytes -= r.Size()
		out.Changes = append(out.Changes, backend.Change{Row: r, Prev: m.superseded(i, q.WithPrev)})
	}
	return out, nil
}

// superseded returns the row that row i replaced. Callers hold mu.
func (m *memory) superseded(i int, wanted bool) *backend.Row {
	if !wanted || m.rows[i].PrevRevision == 0 {
		return nil
	}
	for j := i - 1; j >= 0; j-- {
		if bytes.Equal(m.rows[j].Key, m.rows[i].Key) {
			return &m.rows[j]
		}
	}
	return nil
}

func inSpan(s backend.Span, key []byte) bool {
	if s.End == nil {
		return bytes.Equal(key, s.Start)
	}
	return bytes.Compare(key, s.Start) >= 0 && (len(s.End) == 0 || bytes.Compare(key, s.End) < 0)
}

// Range returns the row of one key; see [backend.Backend].
func (m *memory) Range(_ context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.newest(q.Start, q.Revision); r != nil {
		return []backend.Row{*r}, m.clock, nil
	}
	return nil, m.clock, nil
}

// Rows returns rows by their ids; see [backend.Backend].
func (m *memory) Rows(_ context.Context, ids []backend.RowID, bytes int64) ([]backend.Row, backend.Clock, error) {
	if m.beforeRows != nil {
		if err := m.beforeRows(); err != nil {
			return nil, backend.Clock{}, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []backend.Row
	for _, id := range ids {
		of := m.rows[m.after(id.ModRevision-1):]
		i := slices.IndexFunc(of, func(r backend.Row) bool { return r.ID() == id })
		if i < 0 {
			out = append(out, backend.Row{})
			continue
		}
		out = append(out, of[i])
		if bytes -= of[i].Size(); bytes <= 0 {
			break
		}
	}
	return out, m.clock, nil
}
