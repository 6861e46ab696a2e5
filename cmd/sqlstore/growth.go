package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/topreport"
)

// growthRows and growthBytes bound what is read of each revision at once.
const (
	growthRows  = 500
	growthBytes = 4 << 20
)

// grown is the growth between two revisions.
type grown struct {
	span

	Groups []tally.Grown `json:"groups"`
}

// growth prints what grew between --since and --until.
func (t *top) growth(c *cobra.Command, s source.Store, prefix string, o *output) error {
	if _, _, err := t.counter(prefix); err != nil {
		return err
	}
	grouping := tally.ByField(t.kind)
	if t.by != "field" {
		grouping = tally.Whole(t.names(prefix)[t.by])
	}
	switch {
	case t.since == "":
		return fmt.Errorf("%w: --growth needs --since", errSettings)
	case c.Flags().Changed("sort"):
		return fmt.Errorf("%w: --growth has the largest growth first: leave --sort out", errSettings)
	}
	ctx, keys := c.Context(), source.Prefix(prefix)
	all := grown{}
	var err error
	if all.span, err = t.span(ctx, s, keys); err != nil {
		return err
	}
	growth := tally.NewGrowth(0, grouping)
	err = growth.Compare(sizedRows(ctx, s, keys, all.Since, growth), sizedRows(ctx, s, keys, all.Revision, growth))
	if err != nil {
		return err
	}
	all.Groups = growth.Largest(0, t.limit)
	if err := all.times(ctx, s); err != nil {
		return err
	}
	if o.form == "html" {
		counted := fmt.Sprintf("Growth from revision %d to %d%s", all.Since, all.Revision, all.between())
		return t.report(c, prefix, counted, topreport.Growth("Growth by "+t.by, t.heading(), all.Groups))
	}
	return o.print(c.OutOrStdout(), all, func(w io.Writer) error { return t.growthTable(w, &all) })
}

// sizedRows returns a function that returns one row at a revision after the other.
func sizedRows(ctx context.Context, s source.Store, keys backend.Span, revision int64, growth *tally.Growth,
) func() (*tally.Sized, error) {
	q := source.Query{Span: keys, Revision: revision, Limit: growthRows}
	return tally.Pages(func() (page []*tally.Sized, more bool, err error) {
		bytes := int64(0)
		err = s.Rows(ctx, q, func(r *backend.Row) bool {
			page = append(page, growth.Size(r))
			q.Start = append(append([]byte{}, r.Key...), 0)
			bytes += r.Size()
			return bytes < growthBytes
		})
		return page, len(page) > 0, err
	})
}

// report writes a table as an HTML file.
func (t *top) report(c *cobra.Command, prefix, counted string, table topreport.Table) error {
	r := topreport.Report{Title: "Top", Facts: []string{
		counted, fmt.Sprintf("sqlstore %s, %s UTC", sqlstore.Version, time.Now().UTC().Format("2006-01-02 15:04:05")),
	}, Tables: []topreport.Table{table}}
	if prefix != "" {
		r.Title = "Top of " + topreport.Name(prefix)
	}
	return r.Write(c.OutOrStdout())
}

func (t *top) growthTable(w io.Writer, all *grown) error {
	_, _ = fmt.Fprintf(w, "from revision %d to %d%s\n\n", all.Since, all.Revision, all.between())
	rows := [][]string{{t.heading(), "BYTES", "ADDED", "REMOVED", "KEYS", "ADDED", "REMOVED"}}
	for i := range all.Groups {
		g := &all.Groups[i]
		rows = append(rows, []string{
			show.Key(g.Name), signed(g.Bytes, humanize.IBytes), humanize.IBytes(uint64(g.BytesAdded)),
			humanize.IBytes(uint64(g.BytesRemoved)), fmt.Sprintf("%+d", g.Keys), fmt.Sprint(g.KeysAdded),
			fmt.Sprint(g.KeysRemoved),
		})
	}
	return columns(w, rows)
}

// signed returns a difference with its sign.
func signed(n int64, write func(uint64) string) string {
	if n < 0 {
		return "-" + write(uint64(-n))
	}
	return "+" + write(uint64(n))
}

// heading is that of the column of the groups.
func (t *top) heading() string {
	return map[string]string{"prefix": "PREFIX", "kind": "KIND", "namespace": "NAMESPACE", "field": "FIELD"}[t.by]
}
