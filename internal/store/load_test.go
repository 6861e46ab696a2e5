package store

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A database that times out when it is asked for many keys is asked for fewer.
func TestIndexIsLoadedInSmallerParts(t *testing.T) {
	b := openSQLite(t)
	s := openStore(t, b, Config{})
	many(t, s, 50, 10, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := &faults{Backend: b}
	f.beforeRange = func(_ context.Context, q backend.RangeQuery) error {
		if q.Limit > 15 {
			return fmt.Errorf("a timeout: %w", backend.ErrUnavailable)
		}
		return nil
	}
	s = openStore(t, f, Config{loadRows: 20})
	eventually(t, "complete", s.index.Complete)
	if n := s.index.Position().Keys; n != 50 {
		t.Errorf("%d keys are loaded", n)
	}
}

// However often the index cannot be loaded, the log says so once, and once that it goes on.
func TestIndexThatCannotBeLoadedIsLoggedOnce(t *testing.T) {
	f := &faults{Backend: openSQLite(t)}
	tries := 0
	f.beforeRange = func(context.Context, backend.RangeQuery) error {
		if tries++; tries <= 3 {
			return fmt.Errorf("not now: %w", backend.ErrUnavailable)
		}
		return nil
	}
	var log bytes.Buffer
	s := openStore(t, f, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	eventually(t, "complete", s.index.Complete)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"index of keys not loaded yet", "is being loaded again"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q is logged %d times:\n%s", line, n, &log)
		}
	}
}
