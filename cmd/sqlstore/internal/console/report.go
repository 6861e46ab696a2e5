package console

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/topreport"
	"github.com/sqlstore/sqlstore/status"
)

// reportKinds is of how many kinds, the largest ones, a report has the fields.
const reportKinds = 5

// download is a file to save.
type download struct {
	name, policy string // policy is what it may load
	body         []byte
}

// topReport makes a file of what was counted last.
func (c *Console) topReport(r *http.Request) (view, error) {
	if err := c.mayCount(r); err != nil {
		return view{}, err
	}
	s := c.counter.state()
	if s.last == nil && s.grown == nil {
		return view{}, &failure{Code: http.StatusNotFound, Message: "Nothing was counted yet: count first."}
	}
	var server status.Report
	if err := c.api.get(r, "/status", nil, &server); err != nil {
		return view{}, err
	}
	report := topreport.Report{Title: "Top of " + topreport.Name(server.Name), Facts: []string{
		"sqlstore " + server.Version + ". Report of " + when(time.Now()) + " UTC.",
	}}
	revision := int64(0)
	if s.last != nil {
		revision = s.last.report(&report)
	}
	if s.grown != nil {
		revision = max(revision, s.grown.To)
		s.grown.report(&report)
	}
	var body bytes.Buffer
	if err := report.Write(&body); err != nil {
		return view{}, err
	}
	return view{file: &download{
		name: fmt.Sprintf("sqlstore-top-%d.html", revision), body: body.Bytes(),
		policy: topreport.Policy + "; sandbox; frame-ancestors 'none'",
	}}, nil
}

// title returns a word as the beginning of a text.
func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// report adds the tables of a count, the largest groups first, and returns its revision.
func (n *counted) report(to *topreport.Report) (revision int64) {
	n.read(func(of facts) {
		revision = of.Revision
		to.Facts = append(to.Facts, topreport.Counted(of.Revision, of.Since)+" Counted "+when(of.At)+" UTC.")
		bySize := tally.Sorts["bytes"]
		for _, by := range groupings {
			to.Tables = append(to.Tables, topreport.Top("By "+by, title(by), n.largest(by, "", bySize, mostTop)))
		}
		for _, kind := range n.largest(byKind, "", bySize, reportKinds) {
			if kind.Name == tally.Others {
				continue
			}
			fields := n.largest(byField, kind.Name, bySize, mostTop)
			to.Tables = append(to.Tables, topreport.Top("Fields of "+topreport.Name(kind.Name), title(byField), fields))
		}
	})
	return revision
}

// report adds the tables of growth.
func (g *grown) report(to *topreport.Report) {
	to.Facts = append(to.Facts, fmt.Sprintf("Growth from revision %d to %d, counted %s UTC.", g.From, g.To, when(g.At)))
	for i, by := range slices.All(groupings) {
		to.Tables = append(to.Tables, topreport.Growth("Growth by "+by, title(by), g.growth.Largest(i, mostTop)))
	}
}
