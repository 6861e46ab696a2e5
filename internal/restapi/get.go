package restapi

import (
	"net/http"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/paging"
)

func (c *call) get() error {
	ctx, cancel := c.bounded(c.r.Context())
	defer cancel()
	if c.opts.history {
		return c.history(ctx)
	}
	if err := c.pinAtTime(ctx); err != nil {
		return because(ctx, err)
	}
	row, revision, err := c.s.pager.Get(ctx, c.to.key, paging.GetOptions{
		ResourceVersion: c.opts.version, ResourceVersionMatch: c.opts.match,
	})
	if err != nil {
		return because(ctx, err)
	}
	c.revision = revision
	if row == nil {
		return notFound(c.to.key)
	}
	return c.answerRead(row)
}

func (c *call) answerItem(code int, row *store.Row) error {
	c.w.Header().Set("ETag", etag(row.ModRevision))
	b := getBuffer()
	defer putBuffer(b)
	*b = append(appendItem(*b, row, c.opts.form(false)), '\n')
	return c.answer(code, *b)
}

func (c *call) describe() error { return c.answer(http.StatusOK, c.s.openapi) }
