// Package source reads what a store holds and held: through a server of etcd's API, or from sqlstore's database.
//
// The commands that show data work on a [Store], so that each of them works on both.
package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// ErrNoTimes is returned for a time, by a server that does not tell when revisions were committed.
var ErrNoTimes = errors.New("the server does not tell when revisions were committed: name revisions, or read the " +
	"database with --data-dir or --datastore")

// Store is a store to read. Its methods must not be called concurrently. Errors of all methods: those of the server or
// of the database, [backend.ErrCompacted] and [backend.ErrFutureRevision] with the revisions that can be read.
type Store interface {
	// Now returns the current revision. A server may want the right to read the span.
	Now(ctx context.Context, span backend.Span) (int64, error)
	// Oldest returns the oldest readable revision, 0 if the whole history is there.
	Oldest(ctx context.Context, span backend.Span) (int64, error)
	// Rows calls f with the rows that q asks for, in key order, until f returns false.
	Rows(ctx context.Context, q Query, f func(*backend.Row) bool) error
	// Changes calls f with the changes that q asks for, in the order of writing.
	Changes(ctx context.Context, q Changes, f func(*backend.Change) error) error
	// When returns when a revision was committed. Errors: [ErrNoTimes], [backend.ErrUnknownTime].
	When(ctx context.Context, revision int64) (time.Time, error)
	// At returns the revision that was current at a time. Errors: as When.
	At(ctx context.Context, t time.Time) (int64, error)
	Close() error
}

// Query asks for rows.
type Query struct {
	backend.Span
	Revision int64
	Limit    int // 0 for none
	KeysOnly bool
}

// Changes asks for changes after a revision, up to another one.
type Changes struct {
	backend.Span
	After int64
	// Until is the last revision wanted; 0 follows the store until the context ends.
	Until    int64
	KeysOnly bool // where the source can leave values out
	// WithPrev also wants the rows that were superseded.
	WithPrev bool
}

// Key returns the span of a single key, and Prefix that of all keys that begin with a prefix.
func Key(key string) backend.Span { return backend.Span{Start: []byte(key)} }

// Prefix returns the span of all keys that begin with a prefix.
func Prefix(prefix string) backend.Span {
	if prefix == "" {
		return backend.Span{Start: []byte{0}, End: []byte{}}
	}
	return backend.Span{Start: []byte(prefix), End: Behind(prefix)}
}

// Behind returns the smallest key after all that begin with a prefix; empty if there is none.
func Behind(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{}
}

// Get returns a key's row at a revision, nil if it does not exist there.
func Get(ctx context.Context, s Store, key string, revision int64) (row *backend.Row, err error) {
	err = s.Rows(ctx, Query{Span: Key(key), Revision: revision, Limit: 1}, func(r *backend.Row) bool {
		row = r
		return false
	})
	return row, err
}

// compacted is the error for a revision below the oldest readable one.
func compacted(revision, oldest int64) error {
	return fmt.Errorf("revision %d: %w; the oldest readable one is %d", revision, backend.ErrCompacted, oldest)
}

// future is the error for a revision above the current one.
func future(revision, now int64) error {
	return fmt.Errorf("revision %d: %w; the current one is %d", revision, backend.ErrFutureRevision, now)
}
