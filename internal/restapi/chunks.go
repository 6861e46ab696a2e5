package restapi

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/sqlstore/sqlstore/paging"
)

const (
	// mostItems and mostNames bound a chunk of leases, users or roles: the items, and the bytes of the names in them.
	mostItems = 500
	mostNames = 256 << 10
)

var errToken = badRequest("the continue token is not one of this list: start the list again without it")

// chunk is a part of a list that has no revisions: each chunk shows what is there when it is made.
type chunk[T any] struct {
	items []T
	rest  int // how many items follow
}

// part returns the chunk that follows after an item, or the first one if after is nil. size returns the bytes of the
// names in an item.
func part[T, K any](all []T, after *K, compare func(T, K) int, limit int64, size func(*T) int) chunk[T] {
	if after != nil {
		i, found := slices.BinarySearchFunc(all, *after, compare)
		if found {
			i++
		}
		all = all[i:]
	}
	most := mostItems
	if limit > 0 {
		most = int(min(limit, mostItems))
	}
	n := 0
	for bytes := 0; n < min(len(all), most); n++ {
		if bytes += size(&all[n]); n > 0 && bytes > mostNames {
			break
		}
	}
	return chunk[T]{all[:n], len(all) - n}
}

// last returns the last item of the previous chunk of a kind of list, nil for the first chunk. Errors: 400.
func (o *options) last(kind string) (*string, error) {
	if o.token == "" {
		return nil, nil
	}
	token, err := base64.RawURLEncoding.DecodeString(o.token)
	name, is := strings.CutPrefix(string(token), kind+" ")
	if err != nil || !is {
		return nil, errToken
	}
	return &name, nil
}

// answerList answers with a chunk of n items. last returns the name of the last one, for the token.
func (c *call) answerList(kind string, n int, item func(b []byte, i int) []byte, rest int, last func() string) error {
	page := paging.Page{Revision: c.revision, Remaining: int64(rest)}
	if rest > 0 {
		page.Continue = base64.RawURLEncoding.EncodeToString([]byte(kind + " " + last()))
	}
	b := getBuffer()
	defer putBuffer(b)
	*b = append(append(append(*b, `{"kind":"`...), kind...), `","apiVersion":"sqlstore/v1","items":[`...)
	for i := range n {
		if i > 0 {
			*b = append(*b, ',')
		}
		*b = item(*b, i)
	}
	*b = appendListMeta(append(*b, `],"metadata":`...), &page)
	*b = append(*b, '}', '\n')
	return c.answer(http.StatusOK, *b)
}

// answerNamed answers with a chunk of users or roles, in order of their names. size returns the bytes of the names in
// an item.
func answerNamed[T any](
	c *call, kind string, after *string, all []T, name func(*T) string, size func(*T) int, item func([]byte, *T) []byte,
) error {
	p := part(all, after, func(t T, last string) int { return cmp.Compare(name(&t), last) }, c.opts.limit, size)
	return c.answerList(kind, len(p.items), func(b []byte, i int) []byte {
		return append(item(append(b, '{'), &p.items[i]), '}')
	}, p.rest, func() string { return name(&p.items[len(p.items)-1]) })
}

// refuseVersions refuses the parameters of lists that have versions. Errors: 400.
func (c *call) refuseVersions() error {
	var o options
	op := operation{params: []parameter{watchFlag, listVersion, versionMatch, initialEvents}}
	if err := op.parse(c.r, &o); err != nil {
		return err
	}
	if o.watch || o.match != "" || o.initial != nil || o.version != "" && o.version != "0" {
		return badRequest("this has no versions, and cannot be watched: omit watch, resourceVersion, " +
			"resourceVersionMatch and sendInitialEvents")
	}
	return nil
}
