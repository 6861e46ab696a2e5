package watch

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// chunkBytes ends a chunk after the revision at which its keys and values reach so many bytes.
	chunkBytes = 1 << 20
	// firstChunkRows is how many rows the first chunk of a watch has.
	firstChunkRows = 100
	// chunkMembers bounds the watches that share a chunk, and chunkScans how many watches are examined to find them.
	chunkMembers = 1024
	chunkScans   = 4096
	// chunkSpread is how many revisions apart watches that share a chunk may be: about as many as a chunk has.
	chunkSpread = 1000
	// sharedSpans is how many distinct spans make it worth reading the keys between them, too. With fewer, each span is
	// read separately.
	sharedSpans = 8
)

// chunk is a part of history, from the window or the database, for watches that have missed it.
//
// Watches catch up on demand. A consumer that asks for more puts its stream into the hub's queue. A few readers give
// the queued streams one chunk after another, within the bytes that a stream may hold. So a client that does not read
// costs at most that many bytes, and no read waits for it. Watches at nearby revisions share a chunk, whichever stream
// they belong to: when a server that keeps hundreds of watches restarts, they all come at once.
type chunk struct {
	members []*watcher
	from    []int64 // each member's next when it was chosen
	start   int64
	events  []*event
	through int64 // events are complete through this revision
	epoch   int64 // of the events the members have had
	failed  bool
	corrupt error // why the chunk can never be read
}

// choose returns the next chunk, nil if there is none. ready reports whether it already has its events, from the
// window.
func (h *Hub) choose() (p *chunk, ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st, lead := h.dequeue()
	if lead == nil {
		h.readers--
		return nil, false
	}
	p = &chunk{start: lead.next, through: h.rev, epoch: h.epoch}
	recent := lead.next >= h.window.first
	shared := recent || h.spansNear(st, lead) >= sharedSpans
	fits := func(w *watcher) bool {
		return near(w, lead) && (shared || w.span == lead.span) && w.next >= h.compacted &&
			(!recent || w.next >= h.window.first)
	}
	budget := chunkScans
	p.collect(st, fits, &budget)
	for i := 0; i < len(h.queue) && budget > 0 && len(p.members) < chunkMembers; i++ {
		p.collect(h.queue[i], fits, &budget)
	}
	st.mu.Lock()
	h.enqueue(st) // the other readers continue with the rest
	st.mu.Unlock()
	if recent {
		all := h.window.from(p.start)
		for _, e := range firstRevisions(all, responseEvents, chunkBytes) {
			p.events = append(p.events, e.replayed(h.compacted))
		}
		if n := len(p.events); n < len(all) {
			p.through = p.events[n-1].revision()
		}
	}
	return p, recent
}

func near(w, lead *watcher) bool {
	return !w.ended && w.next >= lead.next-chunkSpread && w.next <= lead.next+chunkSpread
}

// spansNear counts the distinct spans of the watches that could share a chunk with lead, up to sharedSpans. Callers
// hold mu.
func (h *Hub) spansNear(st *Stream, lead *watcher) int {
	spans := make(map[index.Span]struct{}, sharedSpans)
	budget := chunkScans
	scan := func(st *Stream) {
		st.mu.Lock()
		defer st.mu.Unlock()
		for i := 0; i < len(st.unsynced) && budget > 0 && len(spans) < sharedSpans; i++ {
			budget--
			if w := st.unsynced[i]; near(w, lead) {
				spans[w.span] = struct{}{}
			}
		}
	}
	scan(st)
	for i := 0; i < len(h.queue) && budget > 0 && len(spans) < sharedSpans; i++ {
		scan(h.queue[i])
	}
	return len(spans)
}

// collect moves the unsynced watches of a stream that fit to the members. Callers hold hub.mu.
func (p *chunk) collect(st *Stream, fits func(*watcher) bool, budget *int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	n, rest := min(len(st.unsynced), *budget), st.unsynced[:0]
	*budget -= n
	for i, w := range st.unsynced {
		if i < n && len(p.members) < chunkMembers && fits(w) {
			p.members, p.from = append(p.members, w), append(p.from, w.next)
			p.start = min(p.start, w.next)
		} else {
			rest = append(rest, w)
		}
	}
	clear(st.unsynced[len(rest):])
	st.unsynced = rest
}

// span returns the smallest span that contains those of all members.
func (p *chunk) span() index.Span {
	sp := p.members[0].span
	for _, w := range p.members[1:] {
		sp = sp.Join(w.span)
	}
	return sp
}

// read fills the chunk from the database. If that fails, it returns false, and first waits catchUpRetry if the next try
// can succeed.
func (h *Hub) read(p *chunk) bool {
	err := h.readChunk(h.ctx, p)
	if err == nil {
		if h.outage.Worked() {
			h.cfg.Logger.Info("watches catch up again")
		}
		return true
	}
	if errors.Is(err, backend.ErrCorrupt) {
		p.corrupt = err
		return false
	}
	// A compaction reaches the hub in a moment.
	if !errors.Is(err, backend.ErrCompacted) && h.ctx.Err() == nil && h.outage.Failed() {
		h.cfg.Logger.Warn("watches cannot catch up yet", "watches", len(p.members), "revision", p.start, "error", err)
	}
	select {
	case <-h.ctx.Done():
	case <-time.After(catchUpRetry):
	}
	return false
}

// readChunk reads the events that the members want, from start through the chunk's end or as many as fit into a chunk.
func (h *Hub) readChunk(ctx context.Context, p *chunk) error {
	lead, prev := p.members[0], false
	for _, w := range p.members {
		prev = prev || w.req.PrevKV
	}
	hist, err := h.cfg.History.History(ctx, backend.HistoryQuery{
		After: p.start - 1, Until: p.through, Span: p.span().Backend(), Limit: lead.chunkRows, Bytes: chunkBytes,
		WithPrev: prev,
	})
	switch {
	case err != nil:
		lead.chunkRows = max(lead.chunkRows/2, 1) // it may have been too much to read within the timeout
		return err
	case p.start < hist.Clock.Compacted:
		return backend.ErrCompacted
	case hist.Clock.Epoch != p.epoch:
		return backend.ErrOtherEpoch
	case hist.Through < p.start:
		return backend.ErrServerBehind
	}
	p.events = make([]*event, len(hist.Changes))
	total := int64(0)
	for i := range hist.Changes {
		c := &hist.Changes[i]
		var superseded *index.Item
		if c.Prev != nil && c.Row.ModRevision > hist.Clock.Compacted {
			if superseded, err = Superseded(ctx, h.cfg.History, c, p.epoch); err != nil {
				return err
			}
		}
		p.events[i] = newEvent(index.NewItem(c.Row), superseded)
		total += p.events[i].bytes
	}
	lead.fitChunk(len(hist.Changes), total)
	p.through = hist.Through
	return nil
}

// fitChunk doubles the rows read at a time for the watch, up to the events of a response, unless that would fill more
// than half of chunkBytes, going by the size of the last chunk's rows.
func (w *watcher) fitChunk(read int, bytes int64) {
	if read > 0 {
		fits := chunkBytes / 2 * int64(read) / max(1, bytes)
		w.chunkRows = int(max(1, min(int64(2*w.chunkRows), responseEvents, fits)))
	}
}

// Superseded returns the row that watches show as superseded by c: the key's live row before c's revision. It differs
// from c.Prev if a transaction changed the key twice. Nil if there was none, or it is compacted. epoch is that of c.
// Errors: [backend.ErrOtherEpoch], [backend.ErrServerBehind], those of the history.
func Superseded(ctx context.Context, from History, c *backend.Change, epoch int64) (*index.Item, error) {
	if c.Prev.ModRevision != c.Row.ModRevision {
		return index.NewItem(*c.Prev), nil
	}
	rev := c.Row.ModRevision - 1
	rows, clock, err := from.Range(ctx, backend.RangeQuery{
		Span: backend.Span{Start: c.Row.Key}, Revision: rev,
		Limit: 1,
	})
	switch {
	case err != nil:
		return nil, err
	case clock.Epoch != epoch:
		return nil, backend.ErrOtherEpoch
	case clock.Revision < rev:
		return nil, backend.ErrServerBehind
	case len(rows) == 0, rev < clock.Compacted:
		return nil, nil
	}
	return index.NewItem(rows[0]), nil
}
