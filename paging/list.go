package paging

import (
	"context"
	"errors"

	"github.com/sqlstore/sqlstore/internal/store"
)

// overtakenTries limits how often a list of the current revision restarts because that revision was compacted before
// the first row was read.
const overtakenTries = 5

// list is one list, or one page of it, after its revision is decided.
type list struct {
	p      *Pager
	prefix string
	limit  int64
	keys   *keySet // nil for a list that needs no token
	from   place
	more   bool // continues after a previous page
	lag    bool // may be read from this replica's memory, even if others have written since
}

// plan decides how to read a list, and waits until that is possible.
func (p *Pager) plan(ctx context.Context, prefix string, o ListOptions) (*list, error) {
	r, version, err := decide(o)
	if err != nil {
		return nil, err
	}
	l := &list{p: p, prefix: prefix, limit: o.Limit, from: place{revision: latest, rest: unknown}}
	switch r {
	case anyVersion:
		l.lag = true
	case notOlderThan:
		l.lag = true
		err = p.await(ctx, version)
	case exact:
		l.from.revision = version
		err = p.await(ctx, version)
	case continueToken:
		err = l.resume(ctx, o.Continue)
	}
	if err == nil && l.keys == nil && (l.limit > 0 || r == exact) {
		l.keys, err = p.keys.sealing(ctx) // now: it is too late to fail once rows are sent
	}
	return l, err
}

// resume continues the list at the place that the token contains.
func (l *list) resume(ctx context.Context, token string) error {
	s, ok := parse(token)
	if !ok {
		return errToken
	}
	keys, err := l.p.keys.opening(ctx, s.id)
	if err != nil {
		return err
	}
	key, ok := keys.byID[s.id]
	if !ok {
		return errToken
	}
	if l.from, ok = s.open(key, l.prefix); !ok {
		return errToken
	}
	l.keys, l.more = keys, true
	switch {
	case l.from.revision == latest:
		return nil
	case l.from.epoch > l.p.engine.Epoch():
		// A replica that learned of a loss of history before this one sealed it.
		if _, err := l.p.confirm(ctx); err != nil {
			return err
		}
	}
	if l.from.epoch != l.p.engine.Epoch() {
		return l.expired()
	}
	return l.p.await(ctx, l.from.revision)
}

// run reads the rows and passes them to send.
func (l *list) run(ctx context.Context, send func(rows []*store.Row) error) (Page, error) {
	req := &store.RangeRequest{
		Key: []byte(l.prefix + l.from.start), End: store.PrefixEnd([]byte(l.prefix)),
		Limit: l.limit, Revision: l.from.revision,
		Serializable: l.lag, NoCount: l.limit == 0 || l.from.rest != unknown,
	}
	if len(req.Key) == 0 {
		req.Key = []byte{0}
	}
	read, last := int64(0), []byte(nil)
	for tries := 1; ; tries++ {
		res, err := l.p.engine.RangeStream(ctx, req, func(rows []*store.Row, _ bool) error {
			read, last = read+int64(len(rows)), rows[len(rows)-1].Key
			return send(rows)
		})
		switch {
		case err == nil:
			return l.page(res, read, last)
		case errors.Is(err, store.ErrCompacted) && read == 0 && l.from.revision == latest && tries < overtakenTries:
			req.Serializable = false // another replica may already know a newer current revision
		case errors.Is(err, store.ErrCompacted):
			return Page{}, l.expired()
		case errors.Is(err, store.ErrFutureRevision): // the revision existed, and was lost
			return Page{}, l.expired()
		default:
			return Page{}, err
		}
	}
}

// page returns the description of a list after all its rows were read, with the token for the rest.
func (l *list) page(res *store.RangeResult, read int64, last []byte) (Page, error) {
	if l.from.revision != latest && l.more && res.Epoch != l.from.epoch {
		return Page{}, l.expired() // history was lost in the meantime
	}
	page := Page{Revision: l.from.revision}
	if page.Revision == latest {
		page.Revision = res.Revision
	}
	if !res.More {
		return page, nil
	}
	rest := l.from.rest
	if rest == unknown {
		rest = res.Count
	}
	page.Remaining = rest - read
	next := place{
		epoch: res.Epoch, revision: page.Revision, rest: page.Remaining,
		start: string(last[len(l.prefix):]) + "\x00",
	}
	page.Continue = l.seal(next)
	return page, nil
}

// expired returns the error for a compacted revision. Its token lets the client continue, or start, at the latest one.
func (l *list) expired() error {
	if l.keys == nil {
		return &ExpiredError{}
	}
	return &ExpiredError{Continue: l.seal(place{revision: latest, rest: unknown, start: l.from.start})}
}

func (l *list) seal(p place) string {
	return seal(l.keys.newest, l.keys.byID[l.keys.newest], l.prefix, p)
}
