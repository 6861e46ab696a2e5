package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
)

// growthRows is how many rows of each revision growth reads at once, and growthBytes how many bytes of keys. It reads
// the revisions in turn: two lists that go on at once could wait for each other.
const (
	growthRows  = 500
	growthBytes = 4 << 20
)

// errLongKeys ends a page whose keys are too long to wait in memory.
var errLongKeys = errors.New("the keys of a page are too long")

// emptyRevision is the revision of a store to which nothing was written.
const emptyRevision = 1

// grown is the growth between two revisions.
type grown struct {
	From, To int64
	At       time.Time // when the count ended
	growth   *tally.Growth
}

// grow counts the growth between two revisions.
func (c *counter) grow(r *http.Request, p *progress, out *grown) error {
	out.growth = tally.NewGrowth(mostGroups, tally.Whole(tally.ByPrefix("", prefixLevels)), tally.Whole(tally.ByKind),
		tally.Whole(tally.ByNamespace), tally.ByField(""))
	pace := &pacer{ctx: r.Context(), began: time.Now()}
	rows := func(revision int64) func() (*tally.Sized, error) {
		token := ""
		return tally.Pages(func() (page []*tally.Sized, more bool, err error) {
			page, token, err = c.growthPage(r, revision, token, func(row *backend.Row) (*tally.Sized, error) {
				return out.growth.Size(row), pace.pause()
			})
			c.mu.Lock()
			p.Keys += int64(len(page))
			c.mu.Unlock()
			return page, token != "", err
		})
	}
	if out.From < out.To {
		if err := out.growth.Compare(rows(out.From), rows(out.To)); err != nil {
			return err
		}
	}
	out.At = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grown = out
	return nil
}

// growthPage returns a page of rows at a revision, as size makes them, and the token of the next one, "" if there is
// none. Errors: those of [api.keys] and size.
func (c *counter) growthPage(r *http.Request, revision int64, token string,
	size func(*backend.Row) (*tally.Sized, error),
) (page []*tally.Sized, next string, err error) {
	for limit := growthRows; ; limit = len(page) {
		bytes, long := 0, false
		page = nil
		next, err = c.api.keys(r, "", limit, revision, token, func(row *backend.Row) error {
			if bytes += len(row.Key); bytes > growthBytes && len(page) > 0 {
				long = true
				return errLongKeys
			}
			s, err := size(row)
			page = append(page, s)
			return err
		})
		if !long {
			return page, next, err
		}
	}
}

// growing is the data of the page of growth.
type growing struct {
	*grown

	By, FromText, ToText string // FromText and ToText are what to compare next
	Bys                  []string
	Groups               []tally.Grown
	More                 bool      // there are more groups
	Running              *progress // nil if no count goes on
	Failed               *failure
}

// Done reports whether there is a result.
func (g *growing) Done() bool { return g.grown != nil }

// Ago returns how long ago the count ended.
func (g *growing) Ago() int64 { return int64(time.Since(g.At).Seconds()) }

// Heading is that of the groups.
func (g *growing) Heading() string { return strings.ToUpper(g.By[:1]) + g.By[1:] }

// IsPrefix reports whether a group is a prefix to browse.
func (g *growing) IsPrefix(name string) bool { return g.By == byPrefix && name != tally.Others }

// growth shows what grew between two revisions, as it was counted last.
func (c *Console) growth(r *http.Request) (view, error) {
	if err := c.mayCount(r); err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	g := growing{By: q.Get("by"), FromText: q.Get("from"), ToText: q.Get("to"), Bys: groupings}
	if !slices.Contains(groupings, g.By) {
		g.By = byPrefix
	}
	var last state
	if last = c.counter.state(); last.grown != nil {
		g.grown = last.grown
		g.Groups = g.growth.Largest(slices.Index(groupings, g.By), mostTop+1)
		if g.More = len(g.Groups) > mostTop; g.More {
			g.Groups = g.Groups[:mostTop]
		}
	}
	g.Running, g.Failed = last.running, last.failed[countOfGrowth]
	return view{page: "growth", title: "Growth", data: &g}, nil
}

// countGrowth begins to count what grew between two points.
func (c *Console) countGrowth(r *http.Request) (view, error) {
	from, to := strings.TrimSpace(r.PostFormValue("from")), strings.TrimSpace(r.PostFormValue("to"))
	if from == "" {
		return view{}, &failure{
			Code: http.StatusBadRequest, Message: "Say from when on: a revision, or a time in UTC.",
		}
	}
	out, total := &grown{}, int64(0)
	for i, text := range []string{from, to} {
		l, err := c.levelAt(r, text)
		if i == 0 && is(err, http.StatusGone) && c.emptyAt(r, text) {
			l, err = level{}, nil
			l.Metadata.ResourceVersion = emptyRevision
		}
		if err != nil {
			return view{}, err
		}
		*[]*int64{&out.From, &out.To}[i] = l.Metadata.ResourceVersion
		total += l.Metadata.Keys
	}
	if out.From > out.To {
		return view{}, &failure{Code: http.StatusBadRequest, Message: fmt.Sprintf(
			"The first revision, %d, is after the second one, %d.", out.From, out.To)}
	}
	work := func(r *http.Request, p *progress) error { return c.counter.grow(r, p, out) }
	explain := func(err error) *failure { return c.asFailure(r, err) }
	if !c.counter.start(c.stopping, r, countOfGrowth, &progress{Total: total}, work, explain) {
		return view{}, &failure{
			Code: http.StatusConflict, Message: "A count goes on. Compare again once it has ended.",
		}
	}
	return view{to: link("/top/growth", "by", r.URL.Query().Get("by"), "from", from, "to", to)}, nil
}

// levelAt returns the revision and the number of keys at a point. Errors: [*failure], which names the oldest revision
// if that of the point is compacted.
func (c *Console) levelAt(r *http.Request, text string) (l level, err error) {
	at, err := parsePoint(text)
	if err != nil {
		return l, err
	}
	ask := url.Values{"limit": {"1"}}
	at.list(ask)
	if err = c.api.get(r, treePath, ask, &l); !is(err, http.StatusGone) {
		return l, err
	}
	var report struct {
		Compacted int64 `json:"compacted"`
	}
	if err := c.api.get(r, "/status", nil, &report); err != nil {
		return l, err
	}
	return l, &failure{Code: http.StatusGone, exact: true, Message: fmt.Sprintf(
		"%q is not in the history that is left. The oldest revision that is left is %d.", text,
		max(report.Compacted, 1))}
}

// emptyAt reports whether the store was empty at a time: it still has its first commit, which is later.
func (c *Console) emptyAt(r *http.Request, text string) bool {
	at, err := parsePoint(text)
	if err != nil || at.time.IsZero() {
		return false
	}
	var first item
	if _, err := c.api.keys(r, "", 1, emptyRevision+1, "", func(row *backend.Row) error {
		part, err := c.ask(r, string(row.Key), emptyRevision, 1)
		if len(part.Items) > 0 {
			first = part.Items[0]
		}
		return err
	}); err != nil {
		return false
	}
	return first.CommittedAt.After(at.time) // an import may not know its times
}
