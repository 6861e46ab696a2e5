package console

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// countTime bounds how long a count may last, and countedWrites how many of the newest revisions it looks at for
	// what was written.
	countTime     = 15 * time.Minute
	countedWrites = 100_000
	// mostGroups bounds the groups of a count. What belongs to none of them is in one of its own.
	mostGroups = 10_000
	// prefixLevels is how many levels a prefix has.
	prefixLevels = 2
	// pauseAfter is how long a count goes on before it pauses as long, but no longer than longestPause: the server's
	// clients come first.
	pauseAfter   = 20 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// groupings are what a count groups keys by.
var groupings = []string{byPrefix, byKind, byNamespace, byField}

const (
	byPrefix    = "prefix"
	byKind      = "kind"
	byNamespace = "namespace"
	byField     = "field"
)

// counter counts what fills the store and what writes most, once at a time and only when somebody asks for it: it reads
// everything.
type counter struct {
	api     api
	working *sync.WaitGroup // of the console
	mu      sync.Mutex
	running *progress
	last    *counted                 // nil if nothing was counted yet
	grown   *grown                   // nil if no growth was counted yet
	failed  map[kindOfCount]*failure // of the last count, nil if it succeeded
}

// kindOfCount is what a count counts.
type kindOfCount string

const (
	countOfTop    kindOfCount = "top"
	countOfGrowth kindOfCount = "growth"
)

// progress is a count that goes on.
type progress struct {
	Keys, Total, Written int64
	done                 chan struct{}
}

// state is what a counter has done.
type state struct {
	last    *counted
	grown   *grown
	running *progress // a copy, nil if no count goes on
	failed  map[kindOfCount]*failure
}

// state returns the last results, and the progress if a count goes on.
func (c *counter) state() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := state{last: c.last, grown: c.grown, failed: maps.Clone(c.failed)}
	if c.running != nil {
		p := *c.running
		s.running = &p
	}
	return s
}

// start begins work, a count, until stopping ends. It returns false if one goes on. The count lasts longer than the
// request on whose behalf it asks. explain returns an error as people may see it.
func (c *counter) start(
	stopping context.Context, r *http.Request, kind kindOfCount, p *progress,
	work func(*http.Request, *progress) error, explain func(error) *failure,
) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil {
		return false
	}
	p.done = make(chan struct{})
	c.running = p
	delete(c.failed, kind)
	c.working.Go(func() {
		// The count goes on with the user of the request.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), countTime)
		defer cancel()
		defer context.AfterFunc(stopping, cancel)()
		err := work(r.WithContext(ctx), p)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running = nil
		if err != nil && stopping.Err() == nil {
			c.failed[kind] = explain(err)
		}
		close(p.done)
	})
	return true
}

// count reads all keys, and the changes of the newest revisions.
func (c *counter) count(r *http.Request, p *progress) error {
	var l level
	if err := c.api.get(r, treePath, url.Values{"limit": {"1"}}, &l); err != nil {
		return err
	}
	out := newCounted(l.Metadata.ResourceVersion)
	c.mu.Lock()
	p.Total = l.Metadata.Keys
	c.mu.Unlock()
	pace := &pacer{ctx: r.Context(), began: time.Now()}
	err := c.keys(r, out.base, func(row *backend.Row) error {
		out.live(row)
		c.mu.Lock()
		p.Keys++
		c.mu.Unlock()
		return pace.pause()
	})
	if err != nil {
		return err
	}
	err = c.writes(r, out, pace, func() {
		c.mu.Lock()
		p.Written++
		c.mu.Unlock()
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = out
	return nil
}

// pacer pauses work for as long as it went on.
type pacer struct {
	ctx   context.Context
	began time.Time
}

func (p *pacer) pause() error {
	worked := time.Since(p.began)
	if worked < pauseAfter {
		return nil
	}
	timer := time.NewTimer(min(worked, longestPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		p.began = time.Now()
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// keys passes all keys at a revision to add.
func (c *counter) keys(r *http.Request, revision int64, add func(*backend.Row) error) error {
	ask := url.Values{"resourceVersion": {strconv.FormatInt(revision, 10)}, "resourceVersionMatch": {"Exact"}}
	return c.api.read(r, objectsPath, ask, func(in io.Reader) error {
		if err := items(json.NewDecoder(in), add); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, in)
		return err
	})
}
