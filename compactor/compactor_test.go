package compactor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/store"
)

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		mode      compactor.Mode
		retention string
		ok        bool
	}{
		{compactor.Off, "", true},
		{compactor.Periodic, "", true},
		{compactor.Periodic, "0", true},
		{compactor.Periodic, "0s", true},
		{compactor.Periodic, "12", true},
		{compactor.Periodic, "30m", true},
		{compactor.Periodic, "1s", true},
		{compactor.Periodic, "1ns", false},
		{compactor.Periodic, "-1", false},
		{compactor.Periodic, "-1h", false},
		{compactor.Periodic, "soon", false},
		{compactor.Periodic, "9223372036854775807", false},
		{compactor.Revision, "0", true},
		{compactor.Revision, "1000", true},
		{compactor.Revision, "1h", false},
		{compactor.Revision, "-5", false},
		{"sometimes", "1", false},
	} {
		err := compactor.Config{Mode: c.mode, Retention: c.retention}.Check()
		if c.ok != (err == nil) || err != nil && !errors.Is(err, compactor.ErrConfig) {
			t.Errorf("%q %q: %v, want ok %v", c.mode, c.retention, err, c.ok)
		}
	}
}

// clocked is an engine whose revision is the number of minutes that have passed, and that records the calls. It has
// nothing to delete: tests with days of fake time use it, and others a real engine.
type clocked struct {
	began time.Time
	fail  func(minute int64) error
	leads int64                                              // the minute from which on
	step  func(context.Context) (backend.PurgeResult, error) // nil for one that finds nothing to delete
	// purge is step for an engine to which the number of rows matters.
	purge  func(rows int) (backend.PurgeResult, error)
	reader string // reads the rows to delete
	// reclaim is nil for an engine without space to free.
	reclaim func(pages int) (finished bool, took time.Duration, err error)

	mu        sync.Mutex
	compacted int64
	calls     []string // "minute:revision"
}

func (c *clocked) Revision() int64 { return int64(time.Since(c.began) / time.Minute) }

func (c *clocked) Epoch() int64 { return 1 }

func (c *clocked) Leads() bool { return c.Revision() >= c.leads }

func (c *clocked) Compacted() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.compacted
}

func (c *clocked) Compact(_ context.Context, revision int64, physical bool) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Revision()
	if physical {
		return 0, errors.New("it must not wait for the rows")
	}
	if c.fail != nil {
		if err := c.fail(now); err != nil {
			return 0, err
		}
	}
	c.compacted = revision
	c.calls = append(c.calls, fmt.Sprintf("%d:%d", now, revision))
	return now, nil
}

func (c *clocked) PurgeStep(ctx context.Context, rows int) (backend.PurgeResult, error) {
	if c.purge != nil {
		return c.purge(rows)
	}
	if c.step != nil {
		return c.step(ctx)
	}
	return backend.PurgeResult{Through: c.Compacted(), Done: true}, nil
}

func (c *clocked) Readers() string { return c.reader }

func (c *clocked) Reclaim(_ context.Context, pages int) (bool, time.Duration, error) {
	if c.reclaim != nil {
		return c.reclaim(pages)
	}
	return true, 0, nil
}

// never is a jitter of nothing.
func never(time.Duration) time.Duration { return 0 }

// run runs a compactor for some time and returns its calls.
func run(t *testing.T, mode compactor.Mode, retention string, span time.Duration,
	fail func(int64) error,
) (calls []string) {
	t.Helper()
	return runEngine(t, mode, retention, span, &clocked{fail: fail})
}

func runEngine(t *testing.T, mode compactor.Mode, retention string, span time.Duration, e *clocked) (calls []string) {
	t.Helper()
	return runLogged(t, mode, retention, span, e, nil)
}

func runLogged(
	t *testing.T, mode compactor.Mode, retention string, span time.Duration, e *clocked, log *slog.Logger,
) (calls []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e.began = time.Now()
		c, err := compactor.New(e, compactor.Config{Mode: mode, Retention: retention, Jitter: never, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), span+time.Second)
		defer cancel()
		c.Run(ctx)
		calls = e.calls
	})
	return calls
}

func TestSchedule(t *testing.T) {
	for name, c := range map[string]struct {
		mode      compactor.Mode
		retention string
		span      time.Duration
		want      []string
	}{
		"off":                     {compactor.Off, "5", 100 * time.Hour, nil},
		"periodic, off":           {compactor.Periodic, "0", 100 * time.Hour, nil},
		"ten minutes":             {compactor.Periodic, "10m", 35 * time.Minute, []string{"11:1", "21:11", "31:21"}},
		"an hour":                 {compactor.Periodic, "1", 4 * time.Hour, []string{"66:6", "126:66", "186:126"}},
		"longer than an hour":     {compactor.Periodic, "3h", 5 * time.Hour, []string{"186:6", "246:66"}},
		"ten revisions":           {compactor.Revision, "10", 22 * time.Minute, []string{"15:5", "20:10"}},
		"more revisions than are": {compactor.Revision, "100", time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run(t, c.mode, c.retention, c.span, nil); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestFailedCompactionIsTriedAgainSoon(t *testing.T) {
	fail := func(minute int64) error {
		if minute < 130 {
			return store.ErrUnavailable
		}
		return nil
	}
	want := []string{"132:72", "192:132"} // 6 minutes are a tenth of an hour
	if got := run(t, compactor.Periodic, "1h", 4*time.Hour, fail); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A new leader compacts at once to the revision of one retention ago, though it did not lead then.
func TestFailover(t *testing.T) {
	want := []string{"25:15", "35:25", "45:35"}
	if got := runEngine(t, compactor.Periodic, "10m", 46*time.Minute, &clocked{leads: 25}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := runEngine(t, compactor.Revision, "10", 28*time.Minute, &clocked{leads: 22}); !slices.Equal(got,
		[]string{"25:15"}) {
		t.Errorf("by revisions: got %v", got)
	}
}

// Without space to free, the call returns at once, and says nothing about the time that a page takes.
func TestReclaimOfNothing(t *testing.T) {
	asked := map[int]int{}
	e := &clocked{reclaim: func(pages int) (bool, time.Duration, error) {
		asked[pages]++
		return true, 30 * time.Microsecond, nil
	}}
	if calls := runEngine(t, compactor.Periodic, "10m", 5*time.Hour, e); len(calls) < 20 || len(asked) != 1 {
		t.Errorf("%d compactions requested these numbers of pages: %v", len(calls), asked)
	}
}

// A database that takes too long for large steps is asked for smaller ones until they succeed. When it is faster, they
// grow again.
func TestStepsThatTimeOut(t *testing.T) {
	for _, most := range []int{1, 5, 40} {
		slow, worked, longest := true, 0, 0
		e := &clocked{}
		e.purge = func(rows int) (backend.PurgeResult, error) {
			if slow && rows > most {
				time.Sleep(5 * time.Second)
				return backend.PurgeResult{}, backend.ErrUnavailable
			}
			worked++
			longest = max(longest, rows)
			slow = worked < 100
			return backend.PurgeResult{
				Examined: rows, Through: int64(worked), Near: int64(worked), Duration: time.Microsecond,
				Done: worked > 1000,
			}, nil
		}
		runEngine(t, compactor.Periodic, "10m", time.Hour, e)
		if worked < 1000 || longest < 1000 {
			t.Errorf("with %d rows a step at most at first: %d steps have succeeded, of up to %d rows", most, worked,
				longest)
		}
	}
}

// A database that is out of reach for half an hour costs a line a minute for each kind of work, and one at the end.
func TestOutageIsLoggedOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	e := &clocked{}
	down := func() error {
		if minute := e.Revision(); minute >= 30 && minute < 60 {
			return backend.ErrUnavailable
		}
		return nil
	}
	e.fail = func(int64) error { return down() }
	e.purge = func(int) (backend.PurgeResult, error) {
		if err := down(); err != nil {
			return backend.PurgeResult{}, err
		}
		time.Sleep(time.Second)
		return backend.PurgeResult{Examined: 1, Duration: time.Second}, nil // there is always more to do
	}
	runLogged(t, compactor.Periodic, "5m", 70*time.Minute, e, slog.New(slog.NewTextHandler(&log, nil)))
	for line, most := range map[string]int{
		"automatic compaction failed":                           30,
		"rows below the compacted revision are not deleted yet": 30,
		"deleted again": 1,
	} {
		if n := strings.Count(log.String(), line); n == 0 || n > most {
			t.Errorf("%q is logged %d times, want 1 to %d", line, n, most)
		}
	}
}

// The compactor deletes the rows below any compaction, whoever requests it, and the file shrinks.
func TestPurge(t *testing.T) {
	ctx := t.Context()
	b, err := sqlite.Open(ctx, sqlite.Config{Temporary: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := store.Open(ctx, b, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	value := make([]byte, 4<<10)
	for i := range 2000 {
		if _, err := s.Put(ctx, &store.PutRequest{Key: fmt.Appendf(nil, "k%d", i%10), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := b.Size(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compactor.New(s, compactor.Config{})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { c.Run(running) })
	// An export delays deletion until it is closed.
	x, err := s.Export(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact(ctx, s.Revision(), false); err != nil {
		t.Fatal(err)
	}
	rows := func() (n int) {
		h, err := b.History(ctx, backend.HistoryQuery{Limit: 10_000, KeysOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(h.Changes)
	}
	if n := rows(); n != 2000 {
		t.Errorf("%d rows are left under an export, want all 2000", n)
	}
	x.Close()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		size, err := b.Size(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n := rows(); n == 10 && size.Total < before.Total/4 {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d rows in %d bytes are left, there were %d bytes", rows(), size.Total, before.Total)
		}
	}
	stop()
	done.Wait()
}

// Each compaction has a random delay, so that servers that start together soon diverge, and none keeps less than the
// retention.
func TestJitter(t *testing.T) {
	cfg := compactor.Config{Mode: compactor.Periodic, Retention: "10m"}
	synctest.Test(t, func(t *testing.T) {
		const servers = 12
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
		defer cancel()
		var wg sync.WaitGroup
		all := make([]*timed, servers)
		for i := range all {
			all[i] = &timed{clocked: clocked{began: time.Now()}}
			c, err := compactor.New(all[i], cfg)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { c.Run(ctx) })
		}
		wg.Wait()
		last := map[time.Time]bool{}
		for i, e := range all {
			if n := len(e.compactions); n < 6*5 || n > 6*6 {
				t.Errorf("server %d compacted %d times in six hours", i, n)
			}
			for n, c := range e.compactions {
				if kept := c.at.Sub(time.Unix(0, c.revision)); kept < 10*time.Minute || kept > 13*time.Minute {
					t.Errorf("server %d kept %v", i, kept)
				}
				if n == 0 {
					continue
				}
				if gap := c.at.Sub(e.compactions[n-1].at); gap < 10*time.Minute || gap > 11*time.Minute {
					t.Errorf("server %d compacted again after %v", i, gap)
				}
			}
			last[e.compactions[len(e.compactions)-1].at.Truncate(time.Second)] = true
		}
		if len(last) < servers/2 {
			t.Errorf("%d servers compacted last at %d different seconds", servers, len(last))
		}
	})
}

// timed is an engine whose revision is the time in nanoseconds.
type timed struct {
	clocked
	compactions []compaction
}

type compaction struct {
	at       time.Time
	revision int64
}

func (e *timed) Leads() bool     { return true }
func (e *timed) Revision() int64 { return time.Now().UnixNano() }

func (e *timed) Compact(_ context.Context, revision int64, _ bool) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.compacted = revision
	e.compactions = append(e.compactions, compaction{time.Now(), revision})
	return e.Revision(), nil
}

// New settings keep the recorded past.
func TestSettingsChange(t *testing.T) {
	e := &clocked{}
	at(t, e, compactor.Config{Mode: compactor.Periodic, Retention: "2h", Jitter: never},
		func(n int, c *compactor.Compactor) {
			next := []compactor.Config{
				{Mode: compactor.Periodic, Retention: "30m"},
				{Mode: compactor.Periodic, Retention: "1h"},
				{Mode: compactor.Revision, Retention: "10"},
				{},
				{Mode: compactor.Periodic, Retention: "20m"},
				{Mode: compactor.Periodic, Retention: "20m"},
			}
			if err := c.Set(next[n]); err != nil {
				t.Error(err)
			}
			if err := c.Set(compactor.Config{Mode: "x"}); !errors.Is(err, compactor.ErrConfig) {
				t.Errorf("an unknown mode: %v", err)
			}
		}, 100*time.Minute, 40*time.Minute, time.Hour, 11*time.Minute, time.Hour, time.Hour)
	want := []string{
		"100:66", "130:100", "190:130", "200:190", "205:195", "210:200", "271:247", "291:271",
		"311:291", "331:311",
	}
	if !slices.Equal(e.calls, want) {
		t.Errorf("got %v, want %v", e.calls, want)
	}
}
