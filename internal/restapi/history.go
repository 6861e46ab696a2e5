package restapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/paging"
)

const (
	// historyVersions and historyBytes bound the versions in one answer.
	historyVersions = 500
	historyBytes    = 4 << 20
)

var (
	errTime = errors.New("is not a time such as 2026-11-23T14:03:00Z")

	atTime = parameter{
		name: "at", schema: timeSchema,
		doc: "Read what was stored at this time, in the place of a resourceVersion. Not with watch=true.",
		set: func(o *options, s string) error {
			t, err := time.Parse(time.RFC3339, s)
			if err != nil {
				return errTime
			}
			o.at = t
			return nil
		},
	}

	historyFlag = boolean("history", "Return the versions of the object that are not compacted, oldest first: those "+
		"after resourceVersion, and at most limit of them. Not with watch=true.",
		func(o *options, b bool) { o.history = b })
)

// ofReads are the parameters that only reads have, and of what. Ignoring them elsewhere would mislead the client.
var ofReads = []struct {
	parameter

	of string
}{{historyFlag, "one object"}, {atTime, "an object, a list or a tree"}}

// refuseOfReads refuses the parameters of reads that this operation does not have. Errors: 400.
func (op *operation) refuseOfReads(r *http.Request) error {
	for _, p := range ofReads {
		if slices.ContainsFunc(op.params, func(x parameter) bool { return x.name == p.name }) {
			continue
		}
		var o options
		if err := (&operation{params: []parameter{p.parameter}}).parse(r, &o); err != nil {
			return err
		}
		if o.history || !o.at.IsZero() {
			return badRequest("the parameter %s works only for a GET of %s without watch=true", p.name, p.of)
		}
	}
	return nil
}

// pinAtTime makes a read one at the version that was current at the time, if one is given. Errors: 400,
// [backend.ErrUnknownTime].
func (c *call) pinAtTime(ctx context.Context) error {
	switch {
	case c.opts.at.IsZero():
		return nil
	case c.opts.version != "" || c.opts.token != "" || c.opts.match != "":
		return badRequest("the parameter at takes the place of resourceVersion, resourceVersionMatch and continue")
	}
	found, _, err := c.s.engine.CurrentAt(ctx, c.opts.at)
	c.opts.version, c.opts.match = strconv.FormatInt(found.Revision, 10), "Exact"
	return err
}

// history answers with the versions of an object.
func (c *call) history(ctx context.Context) error {
	if !c.opts.at.IsZero() {
		return badRequest("the parameters at and history exclude each other")
	}
	if c.opts.match != "" {
		return badRequest("a history is after its resourceVersion: omit resourceVersionMatch")
	}
	if c.opts.ifMatch != nil || c.opts.ifNoneMatch != nil {
		return badRequest("a history has no ETag: omit If-Match and If-None-Match")
	}
	limit := historyVersions
	if c.opts.limit > 0 {
		limit = int(min(c.opts.limit, historyVersions))
	}
	after, err := paging.ParseVersion(c.opts.version)
	if err != nil {
		return badRequest("the parameter resourceVersion=%q %v", c.opts.version, errVersion)
	}
	if after == 0 {
		after = -1 // all that are left
	}
	h, err := c.s.engine.History(ctx, c.to.key, after, limit, historyBytes)
	if err != nil {
		return because(ctx, err)
	}
	if len(h.Changes) == 0 && c.opts.version == "" {
		return notFound(c.to.key)
	}
	c.revision = h.Through
	b := getBuffer()
	defer putBuffer(b)
	*b = append(*b, `{"kind":"ObjectHistory","apiVersion":"sqlstore/v1","metadata":{"resourceVersion":"`...)
	*b = append(strconv.AppendInt(*b, h.Through, 10), `","currentResourceVersion":"`...)
	*b = append(strconv.AppendInt(*b, h.Clock.Revision, 10), `"},"items":[`...)
	for i := range h.Changes {
		if i > 0 {
			*b = append(*b, ',')
		}
		if *b, err = c.appendVersion(ctx, *b, &h.Changes[i].Row); err != nil {
			return because(ctx, err)
		}
	}
	*b = append(*b, "]}\n"...)
	return c.answer(http.StatusOK, *b)
}

// appendVersion appends an object with the time of its commit, if that is known.
func (c *call) appendVersion(ctx context.Context, b []byte, r *store.Row) ([]byte, error) {
	b = appendMetadata(b, r.Key, r.ModRevision, r.CreateRevision, r.Lease)
	switch found, _, err := c.s.engine.WrittenAt(ctx, r.ModRevision); {
	case err == nil:
		b = append(b, `,"committedAt":"`...)
		b = append(found.At.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z"), '"')
	case !errors.Is(err, backend.ErrUnknownTime):
		return b, err
	}
	if r.Deleted {
		return append(b, `,"deleted":true}`...), nil
	}
	return append(appendValue(append(b, ','), r.Value, c.opts.form(false)), '}'), nil
}
