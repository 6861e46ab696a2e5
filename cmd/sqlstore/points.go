package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
)

// pointHelp describes how a flag names a time.
const pointHelp = "a time as 2026-11-23T14:03:00Z or 2026-11-23 14:03 (local), or how long ago, as 90m or 7d"

// localTimes are the forms of a local time.
var localTimes = []string{
	"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02",
}

// parseTime reads the time that a flag names.
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, form := range localTimes {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	if d, err := parseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%w: --%s %q is not %s", errSettings, flag, text, pointHelp)
}

// pointOf returns the revision that a flag names, by its number or by a time.
func pointOf(ctx context.Context, s source.Store, flag, text string) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n <= 0 {
			return 0, fmt.Errorf("%w: --%s %d: revisions begin at 1", errSettings, flag, n)
		}
		return n, nil
	}
	t, err := parseTime(flag, text, time.Now())
	if err != nil {
		return 0, err
	}
	return currentAt(ctx, s, flag, t)
}

// emptyRevision is the revision of a store to which nothing was written.
const emptyRevision = 1

// beginOf is pointOf for the beginning of what is to be shown: at a time before the first commit, the store was empty.
func beginOf(ctx context.Context, s source.Store, span backend.Span, flag, text string) (int64, error) {
	revision, err := pointOf(ctx, s, flag, text)
	if !errors.Is(err, backend.ErrUnknownTime) {
		return revision, err
	}
	oldest, failed := s.Oldest(ctx, span)
	if failed != nil {
		return 0, errors.Join(err, failed)
	}
	if oldest > emptyRevision {
		return 0, fmt.Errorf("%w; the oldest readable revision is %d", err, oldest)
	}
	switch now, failed := s.Now(ctx, span); {
	case failed != nil:
		return 0, errors.Join(err, failed)
	case now == emptyRevision:
		return emptyRevision, nil
	}
	if _, failed := s.When(ctx, emptyRevision+1); failed != nil { // an import may not know its times
		return 0, err
	}
	return emptyRevision, nil
}

func currentAt(ctx context.Context, s source.Store, flag string, t time.Time) (int64, error) {
	revision, err := s.At(ctx, t)
	if err != nil {
		return 0, fmt.Errorf("--%s %s: %w", flag, t.UTC().Format(time.RFC3339), err)
	}
	return revision, nil
}

// pinned has the flags that name the revision of a read.
type pinned struct {
	at       string
	revision int64
}

// find returns the revision, the current one by default.
func (p *pinned) find(ctx context.Context, s source.Store, span backend.Span) (int64, error) {
	switch {
	case p.at != "" && p.revision != 0:
		return 0, fmt.Errorf("%w: give either --at or --revision", errSettings)
	case p.revision < 0:
		return 0, fmt.Errorf("%w: --revision %d: revisions begin at 1", errSettings, p.revision)
	case p.revision != 0:
		return p.revision, nil
	case p.at == "":
		return s.Now(ctx, span)
	}
	t, err := parseTime("at", p.at, time.Now())
	if err != nil {
		return 0, err
	}
	return currentAt(ctx, s, "at", t)
}

// clock shows when revisions were committed, and remembers if nobody knows.
type clock struct {
	store  source.Store
	silent bool // the store cannot tell any time
	last   moment
}

type moment struct {
	revision int64
	at       *time.Time
}

// when returns when a revision was committed, nil if that is not known.
func (c *clock) when(ctx context.Context, revision int64) (*time.Time, error) {
	if c.silent {
		return nil, nil
	}
	if c.last.revision == revision {
		return c.last.at, nil
	}
	t, err := c.store.When(ctx, revision)
	c.last = moment{revision: revision}
	switch {
	case errors.Is(err, source.ErrNoTimes):
		c.silent = true
	case errors.Is(err, backend.ErrUnknownTime):
	case err != nil:
		return nil, err
	default:
		t = t.UTC()
		c.last.at = &t
	}
	return c.last.at, nil
}

// stamp is how tables show times.
const stamp = "2006-01-02T15:04:05.000Z"

// showTime returns a time for a table.
func showTime(t *time.Time) string {
	if t == nil {
		return "not known"
	}
	return t.UTC().Format(stamp)
}
