package compactor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/store"
)

// at runs a compactor over e and calls check after each of the consecutive spans.
func at(t *testing.T, e *clocked, cfg compactor.Config, check func(n int, c *compactor.Compactor),
	spans ...time.Duration,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e.began = time.Now()
		if cfg.Jitter == nil {
			cfg.Jitter = never
		}
		c, err := compactor.New(e, cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		for n, span := range spans {
			<-time.After(span)
			synctest.Wait()
			check(n, c)
		}
		cancel()
		<-done
	})
}

func tenMinutes() compactor.Config {
	return compactor.Config{Mode: compactor.Periodic, Retention: "10m"}
}

func stalled(s compactor.State) string {
	if s.Stall == nil {
		return ""
	}
	return s.Stall.Reason
}

func TestState(t *testing.T) {
	e := &clocked{}
	at(t, e, tenMinutes(), func(n int, c *compactor.Compactor) {
		s, since := c.State(), func(at time.Time) time.Duration { return at.Sub(e.began) }
		if s.Mode != compactor.Periodic || s.Retention != "10m" || !s.Leads || s.Stall != nil || s.Failed != 0 {
			t.Errorf("%d: %+v", n, s)
		}
		switch n {
		case 0:
			if !s.Last.IsZero() || since(s.Next) != 10*time.Minute || s.Done != 0 {
				t.Errorf("before the first compaction: %+v", s)
			}
		case 1:
			if since(s.Last) != 21*time.Minute || since(s.Next) != 31*time.Minute || s.Done != 2 || s.Compacted != 11 ||
				s.Purged != 11 {
				t.Errorf("after the second: %+v, last %v, next %v", s, since(s.Last), since(s.Next))
			}
		}
	}, 5*time.Minute, 20*time.Minute)
}

// The time of the first compaction is known from the start, not only once the revision is recorded again.
func TestStateAtTheStart(t *testing.T) {
	most := func(d time.Duration) time.Duration { return d }
	for _, cfg := range []compactor.Config{
		{Mode: compactor.Periodic, Retention: "1h", Jitter: most},
		{Mode: compactor.Revision, Retention: "1000", Jitter: most},
	} {
		at(t, &clocked{}, cfg, func(_ int, c *compactor.Compactor) {
			if s := c.State(); s.Next.IsZero() {
				t.Errorf("%s: %+v", cfg.Mode, s)
			}
		}, time.Second)
	}
}

// A replica that does not lead neither compacts nor stalls, and does not know the progress of the purge.
func TestStateOfAnotherReplica(t *testing.T) {
	e := &clocked{leads: 1 << 40, compacted: 5, fail: func(int64) error { return errors.New("no") }}
	at(t, e, tenMinutes(), func(_ int, c *compactor.Compactor) {
		if s := c.State(); s.Leads || !s.Next.IsZero() || s.Purged != -1 || s.Compacted != 5 || s.Stall != nil ||
			s.Done+s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	}, time.Hour)
}

func TestFailingCompactionStalls(t *testing.T) {
	e := &clocked{fail: func(minute int64) error {
		if minute < 33 {
			return errors.New("disk on fire")
		}
		return nil
	}}
	want := []string{"", compactor.CompactionFails, ""}
	at(t, e, tenMinutes(), func(n int, c *compactor.Compactor) {
		s := c.State()
		if got := stalled(s); got != want[n] {
			t.Errorf("%d: stalled %q, want %q", n, got, want[n])
		}
		if n == 1 {
			if since := s.Stall.Since.Sub(e.began); since != 11*time.Minute || !strings.Contains(s.Stall.Message,
				"disk on fire") || s.Failed == 0 {
				t.Errorf("since %v, %d failed: %s", since, s.Failed, s.Stall.Message)
			}
		}
	}, 30*time.Minute, 2*time.Minute, 2*time.Minute)
}

// A compaction by kube-apiserver or an operator in between is not a failure.
func TestOtherCompactionsAreNoFailure(t *testing.T) {
	e := &clocked{fail: func(int64) error { return store.ErrCompacted }}
	at(t, e, tenMinutes(), func(_ int, c *compactor.Compactor) {
		if s := c.State(); s.Stall != nil || s.Failed != 0 || s.Done != 0 {
			t.Errorf("%+v", s)
		}
	}, 5*time.Hour)
}

func TestPurgeWithoutProgressStalls(t *testing.T) {
	type result = backend.PurgeResult
	for name, c := range map[string]struct {
		step   func(context.Context) (result, error)
		reader string
		span   time.Duration // after which it stalls
		want   string
		text   string
	}{
		"error": {
			func(context.Context) (result, error) { return result{}, errors.New("disk on fire") }, "",
			2 * time.Minute, compactor.PurgeFails, "disk on fire",
		},
		"held": {
			func(context.Context) (result, error) { return result{}, nil }, "a snapshot", 7 * time.Minute,
			compactor.PurgeHeld, "a snapshot",
		},
		"held far away": {
			func(context.Context) (result, error) { return result{}, nil }, "", 7 * time.Minute,
			compactor.PurgeHeld, "another replica",
		},
		"hangs": {
			func(ctx context.Context) (result, error) { <-ctx.Done(); return result{}, ctx.Err() }, "",
			2 * time.Minute, compactor.PurgeHangs, "does not finish",
		},
		"slow": {func(context.Context) (result, error) {
			<-time.After(100 * time.Second)
			return result{
				Removed: 1,
			}, nil
		}, "", time.Hour, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, &clocked{compacted: 5, reader: c.reader, step: c.step}, compactor.Config{},
				func(n int, comp *compactor.Compactor) {
					s := comp.State()
					if n == 0 && s.Stall != nil || n == 1 && stalled(s) != c.want {
						t.Fatalf("look %d: stalled %q, want %q at the second look", n, stalled(s), c.want)
					}
					if s.Stall != nil && (!strings.Contains(s.Stall.Message, c.text) ||
						!strings.Contains(s.Stall.Message,
							"revision 5")) {
						t.Errorf("since %v: %q", s.Stall.Since, s.Stall.Message)
					}
				}, c.span, 2*time.Second)
		})
	}
}

// With nothing to compact, the state has the time of the next check, which is never in the past.
func TestNextOfAnIdleServer(t *testing.T) {
	for _, cfg := range []compactor.Config{tenMinutes(), {Mode: compactor.Revision, Retention: "1000"}} {
		at(t, &clocked{compacted: 1 << 40}, cfg, func(_ int, c *compactor.Compactor) {
			if s, now := c.State(), time.Now(); !s.Next.After(now) || s.Next.Sub(now) > 10*time.Minute || s.Done != 0 {
				t.Errorf("%s: next in %v: %+v", cfg.Mode, s.Next.Sub(now), s)
			}
		}, 30*time.Second, 3*time.Hour+30*time.Second)
	}
}

// An idle server has nothing to delete, however long it is idle.
func TestNothingToDeleteIsNoStall(t *testing.T) {
	at(t, &clocked{compacted: 5}, compactor.Config{}, func(_ int, c *compactor.Compactor) {
		if s := c.State(); s.Stall != nil || s.Purged != 5 || s.Mode != compactor.Off || !s.Next.IsZero() {
			t.Errorf("%+v", s)
		}
	}, 24*time.Hour)
}
