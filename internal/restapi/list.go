package restapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/paging"
)

// chunkBytes is how much of an answer is buffered before it is sent. A list that fits has a Content-Length, and its
// errors get their own status code.
const chunkBytes = 256 << 10

// errHeader ends a list of which only the header is requested.
var errHeader = errors.New("the header is complete")

func (c *call) list() error {
	if c.opts.initial != nil {
		return badRequest("sendInitialEvents is for a watch: a list has no events")
	}
	if err := c.pinAtTime(c.r.Context()); err != nil {
		return err
	}
	b := getBuffer()
	defer putBuffer(b)
	*b = append(*b, `{"kind":"ObjectList","apiVersion":"sqlstore/v1","items":[`...)
	first := true
	ctx, step, cancel := c.steps(c.r.Context())
	defer cancel()
	page, err := c.s.pager.List(ctx, c.to.key, c.opts.listOptions(), func(rows []*store.Row) error {
		return step(func() error {
			for _, r := range rows {
				if !first {
					*b = append(*b, ',')
				}
				first = false
				*b = appendItem(*b, r, c.opts.form(false))
				if err := c.flush(b); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if errors.Is(err, errHeader) {
		return nil
	}
	if err != nil {
		return because(ctx, err)
	}
	c.revision = page.Revision
	*b = append(*b, `],"metadata":`...)
	*b = append(appendListMeta(*b, &page), '}', '\n')
	if c.code == 0 {
		return c.answer(http.StatusOK, *b)
	}
	return c.write(*b)
}

// flush sends the buffer once it is large enough.
func (c *call) flush(b *[]byte) error {
	if len(*b) < chunkBytes {
		return nil
	}
	if c.code == 0 {
		c.w.Header().Set("Content-Type", contentJSON)
		c.begin(http.StatusOK)
		if c.head() {
			return errHeader
		}
	}
	err := c.write(*b)
	*b = (*b)[:0]
	return err
}

func appendListMeta(b []byte, p *paging.Page) []byte {
	b = append(b, `{"resourceVersion":"`...)
	b = strconv.AppendInt(b, p.Revision, 10)
	b = append(b, '"')
	if p.Continue != "" {
		b = append(b, `,"continue":`...)
		b = appendString(b, []byte(p.Continue))
		b = append(b, `,"remainingItemCount":`...)
		b = strconv.AppendInt(b, p.Remaining, 10)
	}
	return append(b, '}')
}
