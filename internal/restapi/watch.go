package restapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/paging"
)

// watching is a watch in progress.
type watching struct {
	*call
	ctx     context.Context
	watches *store.WatchStream
}

// Reasons why a watch ends without an error.
var (
	errStopping = failure(http.StatusServiceUnavailable, reasonUnavailable, "the server is stopping").retry(1)
	errTimeout  = errors.New("timeoutSeconds has passed")
)

func (c *call) watch() error {
	if c.s.stopping.Err() != nil {
		return errStopping
	}
	start, err := c.s.pager.Watch(c.opts.watchOptions())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(c.s.stopping, func() { cancel(errStopping) })()
	ctx, done := c.connected(ctx)
	defer done()
	if c.opts.timeout > 0 {
		defer time.AfterFunc(c.opts.timeout, func() { cancel(errTimeout) }).Stop()
	}
	c.s.metrics.watches.Inc()
	defer c.s.metrics.watches.Dec()
	w := &watching{call: c, ctx: ctx, watches: c.s.engine.NewWatchStream()}
	defer w.watches.Close()
	if err = w.start(&start); err == nil {
		err = w.follow()
	}
	return w.ended(err)
}

// ended is the answer at the end of a watch: an error becomes an ERROR event if the answer has begun.
func (w *watching) ended(err error) error {
	closed := errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrWatchClosed)
	if errors.Is(err, errHeader) || closed && w.code != 0 {
		return nil
	}
	if w.ctx.Err() != nil {
		err = context.Cause(w.ctx)
	}
	switch begun := w.code != 0; {
	case w.r.Context().Err() != nil:
		if begun {
			return nil // a watch has no end that a client could miss
		}
		return context.Canceled
	case errors.Is(err, errTimeout) && !begun:
		w.begin(http.StatusOK)
		return nil
	case errors.Is(err, errTimeout), errors.Is(err, errStopping) && begun:
		return nil
	case !begun, errors.Is(err, errUnsent):
		return err
	}
	b := getBuffer()
	defer putBuffer(b)
	*b = append(*b, `{"type":"ERROR","object":`...)
	*b = append(*b, w.status(err).json()...)
	*b = append(*b, '}', '\n')
	return w.send(*b)
}

// start sends the header and, if requested, the state, and begins the watch after it. A client that has the header
// misses nothing that is written from then on.
func (w *watching) start(s *paging.WatchStart) error {
	if err := w.mayWatch(w.span()); err != nil {
		return err
	}
	epoch := w.s.engine.Epoch()
	if s.State {
		after, err := w.state(s)
		if err != nil {
			return err
		}
		w.register(after, true)
		if w.s.engine.Epoch() != epoch {
			return expired(watchExpired) // the state may belong to lost history
		}
		return nil
	}
	ctx, cancel := w.bounded(w.ctx)
	err := because(ctx, w.watches.CatchUp(ctx))
	cancel()
	if err != nil {
		return err
	}
	if s.After > 0 && s.After < w.s.engine.Compacted()-1 {
		return expired(watchExpired)
	}
	w.register(s.After, false)
	return w.header()
}

// register begins the watch after a revision, 0 for the current one. state means that the state there was sent.
func (w *watching) register(after int64, state bool) {
	key, end := w.span()
	req := store.WatchRequest{
		Key: key, End: end, PrevKV: true, ProgressNotify: w.opts.bookmarks, CaughtUp: w.opts.bookmarks && !state,
		As: auth.From(w.ctx),
	}
	if after > 0 {
		req.StartRevision = min(after, math.MaxInt64-1) + 1
	}
	w.watches.Watch(req)
}

// span returns what to watch.
func (w *watching) span() (key, end []byte) {
	key = w.to.key
	if w.to.kind == aCollection {
		end = store.PrefixEnd(key)
		if len(key) == 0 {
			key = []byte{0}
		}
	}
	return key, end
}

// header begins the answer, so that the client knows that its watch is active.
func (w *watching) header() error {
	w.w.Header().Set("Content-Type", contentJSON)
	w.begin(http.StatusOK)
	if w.head() {
		return errHeader
	}
	return w.send(nil)
}

// errUnsent is returned if the client does not receive what is sent.
var errUnsent = errors.New("the client does not read the answer")

// send writes and flushes events.
func (w *watching) send(b []byte) error {
	if err := w.write(b); err != nil {
		return err
	}
	w.extend()
	defer w.written()
	if err := w.await(w.ctl.Flush); err != nil {
		return errors.Join(errUnsent, err)
	}
	return nil
}

// write writes events, of which others follow.
func (w *watching) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := w.call.write(b); err != nil {
		return errors.Join(errUnsent, err)
	}
	return nil
}

// state sends the existing objects and returns the revision of that state.
func (w *watching) state(s *paging.WatchStart) (revision int64, err error) {
	b := getBuffer()
	defer putBuffer(b)
	add := func(rows []*store.Row) error {
		for _, r := range rows {
			*b = append(*b, `{"type":"ADDED","object":`...)
			*b = append(appendItem(*b, r, w.opts.form(true)), '}', '\n')
			if len(*b) >= chunkBytes {
				if err := w.gathered(b); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if w.to.kind == aKey {
		revision, err = w.one(s, add)
	} else {
		revision, err = w.all(s, add)
	}
	if err != nil {
		return 0, err
	}
	if s.EndBookmark {
		*b = appendBookmark(*b, revision, true)
	}
	return revision, w.gathered(b)
}

// one passes the watched object to add.
func (w *watching) one(s *paging.WatchStart, add func([]*store.Row) error) (revision int64, err error) {
	ctx, cancel := w.bounded(w.ctx)
	defer cancel()
	row, revision, err := w.s.pager.Get(ctx, w.to.key, paging.GetOptions{ResourceVersion: s.List.ResourceVersion})
	if err == nil && row != nil {
		return revision, add([]*store.Row{row})
	}
	return revision, because(ctx, err)
}

// all passes the watched objects to add.
func (w *watching) all(s *paging.WatchStart, add func([]*store.Row) error) (revision int64, err error) {
	ctx, step, cancel := w.steps(w.ctx)
	defer cancel()
	page, err := w.s.pager.List(ctx, w.to.key, s.List,
		func(rows []*store.Row) error { return step(func() error { return add(rows) }) })
	return page.Revision, because(ctx, err)
}

// gathered sends the buffer, after the header.
func (w *watching) gathered(b *[]byte) error {
	if w.code == 0 {
		if err := w.header(); err != nil {
			return err
		}
	}
	if len(*b) == 0 {
		return nil
	}
	err := w.send(*b)
	*b = (*b)[:0]
	return err
}

// follow sends events until the watch ends.
func (w *watching) follow() error {
	for {
		r, err := w.watches.Next(w.ctx)
		switch {
		case err != nil:
			return err
		case r.Err != nil:
			return r.Err
		case r.Canceled:
			return expired(watchExpired)
		case r.Created:
		default:
			if err := w.events(r); err != nil {
				return err
			}
		}
	}
}

// events sends a response: its events, those of whole revisions, or, if it has none, its progress. It flushes them
// together, so that who reads within the process knows where a revision ends.
func (w *watching) events(r *store.WatchResponse) error {
	b := getBuffer()
	defer putBuffer(b)
	if len(r.Events) == 0 {
		*b = appendBookmark(*b, r.Revision, false)
	}
	for i := range r.Events {
		*b = appendEvent(*b, &r.Events[i], w.opts.form(true), w.opts.previous)
		if len(*b) >= chunkBytes {
			if err := w.write(*b); err != nil {
				return err
			}
			*b = (*b)[:0]
		}
	}
	return w.gathered(b)
}

// appendEvent appends an event as a line. A deletion shows the last state, with the deletion's version; only its
// metadata if that state has been compacted. previous adds the version that an update supersedes.
func appendEvent(b []byte, e *store.Event, as form, previous bool) []byte {
	r := e.Row
	switch {
	case r.Deleted:
		b = append(b, `{"type":"DELETED","object":`...)
		created, lease := int64(0), int64(0)
		if e.Prev != nil {
			created, lease = e.Prev.CreateRevision, e.Prev.Lease
		}
		b = appendMetadata(b, r.Key, r.ModRevision, created, lease)
		if e.Prev != nil {
			b = append(b, ',')
			b = appendValue(b, e.Prev.Value, as)
		}
		return append(b, '}', '}', '\n')
	case r.CreateRevision == r.ModRevision:
		b = append(b, `{"type":"ADDED","object":`...)
	default:
		b = append(b, `{"type":"MODIFIED","object":`...)
	}
	b = appendItem(b, r, as)
	if previous && e.Prev != nil {
		b = appendItem(append(b, `,"previous":`...), e.Prev, as)
	}
	return append(b, '}', '\n')
}

func appendBookmark(b []byte, revision int64, initialEnd bool) []byte {
	b = append(b, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"`...)
	b = strconv.AppendInt(b, revision, 10)
	b = append(b, '"')
	if initialEnd {
		b = append(b, `,"annotations":{"k8s.io/initial-events-end":"true"}`...)
	}
	return append(b, '}', '}', '}', '\n')
}
