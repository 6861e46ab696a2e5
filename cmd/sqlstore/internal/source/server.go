package source

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// serverPage is how many rows one request to a server asks for.
	serverPage = 500
	// progressEvery is how often a server is asked how far a watch has come.
	progressEvery = 50 * time.Millisecond
)

// Server is a [Store] behind a server of etcd's API: sqlstore or etcd. Its Rows may be called concurrently.
type Server struct {
	Client *clientv3.Client
	// Times tells when revisions were committed; nil if the server cannot.
	Times *Times
}

var _ Store = (*Server)(nil)

// rangeOf returns the options that select a span.
func rangeOf(s backend.Span) (key string, opts []clientv3.OpOption) {
	switch {
	case s.End == nil:
		return string(s.Start), nil
	case len(s.End) == 0:
		return string(s.Start), []clientv3.OpOption{clientv3.WithFromKey()}
	}
	return string(s.Start), []clientv3.OpOption{clientv3.WithRange(string(s.End))}
}

// Now implements [Store].
func (s *Server) Now(ctx context.Context, span backend.Span) (int64, error) {
	key, opts := rangeOf(span)
	resp, err := s.Client.Get(ctx, key, append(opts, clientv3.WithLimit(1), clientv3.WithKeysOnly())...)
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}

// errFound ends a watch that has answered.
var errFound = errors.New("found")

// Oldest implements [Store]. Only a watch from the beginning tells.
func (s *Server) Oldest(ctx context.Context, span backend.Span) (int64, error) {
	now, err := s.Now(ctx, span)
	if err != nil {
		return 0, err
	}
	err = s.watch(ctx, Changes{Span: span, Until: now}, func([]*clientv3.Event) error { return errFound })
	var was *compactedError
	switch {
	case errors.As(err, &was):
		return was.oldest, nil
	case errors.Is(err, errFound):
		err = nil
	}
	return 0, err
}

// compactedError carries the compacted revision.
type compactedError struct{ wanted, oldest int64 }

func (e *compactedError) Error() string { return compacted(e.wanted, e.oldest).Error() }

func (e *compactedError) Unwrap() error { return backend.ErrCompacted }

// Rows implements [Store].
func (s *Server) Rows(ctx context.Context, q Query, f func(*backend.Row) bool) error {
	span, left := q.Span, q.Limit
	for {
		page := serverPage
		if q.Limit > 0 {
			page = min(page, left)
		}
		key, opts := rangeOf(span)
		opts = append(opts, clientv3.WithLimit(int64(page)), clientv3.WithRev(q.Revision))
		if q.KeysOnly {
			opts = append(opts, clientv3.WithKeysOnly())
		}
		resp, err := s.Client.Get(ctx, key, opts...)
		if err != nil {
			return s.explain(ctx, err, q)
		}
		for _, kv := range resp.Kvs {
			if !f(rowOf(kv)) {
				return nil
			}
		}
		left -= len(resp.Kvs)
		if !resp.More || len(resp.Kvs) == 0 || q.Limit > 0 && left <= 0 {
			return nil
		}
		last := resp.Kvs[len(resp.Kvs)-1].Key
		span.Start = append(last[:len(last):len(last)], 0)
	}
}

// explain adds the readable revisions to an error about others.
func (s *Server) explain(ctx context.Context, err error, q Query) error {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		oldest, failed := s.Oldest(ctx, q.Span)
		if failed != nil {
			return err
		}
		return compacted(q.Revision, oldest)
	case errors.Is(err, rpctypes.ErrFutureRev):
		now, failed := s.Now(ctx, q.Span)
		if failed != nil {
			return err
		}
		return future(q.Revision, now)
	}
	return err
}

func rowOf(kv *mvccpb.KeyValue) *backend.Row {
	return &backend.Row{
		Key: kv.Key, Value: kv.Value, ModRevision: kv.ModRevision, CreateRevision: kv.CreateRevision,
		Version: kv.Version, Lease: kv.Lease,
	}
}

// Changes implements [Store].
func (s *Server) Changes(ctx context.Context, q Changes, f func(*backend.Change) error) error {
	return s.watch(ctx, q, func(events []*clientv3.Event) error {
		for _, e := range events {
			c := &backend.Change{Row: *rowOf(e.Kv)}
			c.Row.Deleted = e.Type == clientv3.EventTypeDelete
			if e.PrevKv != nil {
				c.Prev = rowOf(e.PrevKv)
			}
			if err := f(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// watch passes the events of q to f. A watch does not end by itself, so the server is asked for its progress: an answer
// at or above the last revision wanted follows all events up to there.
func (s *Server) watch(ctx context.Context, q Changes, f func([]*clientv3.Event) error) error {
	if q.Until > 0 && q.Until <= q.After {
		return nil
	}
	key, opts := rangeOf(q.Span)
	opts = append(opts, clientv3.WithRev(q.After+1), clientv3.WithProgressNotify())
	if q.WithPrev {
		opts = append(opts, clientv3.WithPrevKV())
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	answers := s.Client.Watch(ctx, key, opts...)
	ask := time.NewTicker(progressEvery)
	defer ask.Stop()
	if q.Until == 0 {
		ask.Stop()
	}
	for {
		select {
		case <-ask.C:
			if err := s.Client.RequestProgress(ctx); err != nil {
				return err
			}
		case answer, open := <-answers:
			switch {
			case !open:
				return errors.Join(ctx.Err(), errIf(ctx.Err() == nil, "the server ended the watch"))
			case answer.CompactRevision > 0:
				return &compactedError{q.After, answer.CompactRevision}
			case answer.Err() != nil:
				return answer.Err()
			}
			events := answer.Events
			if q.Until > 0 {
				events = until(events, q.Until)
			}
			if len(events) > 0 {
				if err := f(events); err != nil {
					return err
				}
			}
			if q.Until > 0 && (len(events) < len(answer.Events) || answer.IsProgressNotify() &&
				answer.Header.Revision >= q.Until) {
				return nil
			}
		}
	}
}

// until leaves out the events above a revision.
func until(events []*clientv3.Event, last int64) []*clientv3.Event {
	for i, e := range events {
		if e.Kv.ModRevision > last {
			return events[:i]
		}
	}
	return events
}

func errIf(cond bool, text string) error {
	if cond {
		return errors.New(text)
	}
	return nil
}

// When implements [Store].
func (s *Server) When(ctx context.Context, revision int64) (time.Time, error) {
	return s.Times.when(ctx, revision)
}

// At implements [Store].
func (s *Server) At(ctx context.Context, t time.Time) (int64, error) {
	return s.Times.at(ctx, t)
}

// Close implements [Store].
func (s *Server) Close() error { return s.Client.Close() }
