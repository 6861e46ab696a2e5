package restapi

import (
	"net/http"
	"strconv"

	"github.com/sqlstore/sqlstore/paging"
)

// tree answers with one level of the tree of keys.
func (c *call) tree() error {
	var watching options
	if err := (&operation{params: []parameter{watchFlag, initialEvents}}).parse(c.r, &watching); err != nil {
		return err
	}
	if watching.watch || watching.initial != nil {
		return badRequest("a tree cannot be watched: watch the objects at %s", objectsPath)
	}
	ctx, cancel := c.bounded(c.r.Context())
	defer cancel()
	if err := c.pinAtTime(ctx); err != nil {
		return because(ctx, err)
	}
	page, err := c.s.pager.Tree(ctx, c.to.key, c.opts.listOptions())
	if err != nil {
		return because(ctx, err)
	}
	c.revision = page.Revision
	b := getBuffer()
	defer putBuffer(b)
	*b = append(*b, `{"kind":"ObjectTree","apiVersion":"sqlstore/v1","items":[`...)
	for i := range page.Entries {
		if i > 0 {
			*b = append(*b, ',')
		}
		*b = appendEntry(*b, &page.Entries[i])
	}
	*b = append(*b, `],"metadata":{"resourceVersion":"`...)
	*b = append(strconv.AppendInt(*b, page.Revision, 10), `","keys":`...)
	*b = strconv.AppendInt(*b, page.Keys, 10)
	if page.Continue != "" {
		*b = appendString(append(*b, `,"continue":`...), []byte(page.Continue))
	}
	*b = append(*b, "}}\n"...)
	return c.answer(http.StatusOK, *b)
}

func appendEntry(b []byte, e *paging.TreeEntry) []byte {
	if e.Row != nil {
		return append(appendMetadata(b, e.Name, e.Row.ModRevision, e.Row.CreateRevision, e.Row.Lease), '}')
	}
	b = appendBytes(append(b, '{'), "prefix", e.Name)
	return append(strconv.AppendInt(append(b, `,"keys":`...), e.Keys, 10), '}')
}
