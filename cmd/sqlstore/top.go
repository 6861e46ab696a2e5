package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/topreport"
)

const topHelp = `Print what fills the store and what writes most: keys and bytes that exist now, and writes,
deletions and bytes written since a revision or time, by default in all history that is not compacted.
Bytes are those of keys and values; what was written and is not compacted yet also takes space.

    sqlstore top /registry --by kind
    sqlstore top --by field --kind "v1 Pod"
    sqlstore top --since 1h --sort writes
    sqlstore top --growth --since 7d --until 1d

Fields are those of Kubernetes' objects in protobuf and JSON, such as spec and metadata.managedFields; kubectl's
copy of an applied object counts apart from the other annotations.

With --growth, it prints the keys and bytes added and removed between two revisions or times, and the difference,
the largest growth first. A key that became larger adds bytes.

It reads all keys of the prefix, and the history.` + readerHelp

// top implements the command.
type top struct {
	by, sort, since, until, kind string
	levels, limit                int
	grown                        bool
}

func topCommand() *cobra.Command {
	r, o, t := &reader{}, &output{}, &top{}
	cmd := &cobra.Command{
		Use: "top [PREFIX]", Short: "Print what fills the store, and what writes most", Long: topHelp,
		Args: onePrefix, ValidArgsFunction: r.completeKeys,
	}
	f := cmd.Flags()
	fixed := func(to *string, name, what string, values ...string) {
		f.StringVar(to, name, values[0], what+": "+oneOf(values))
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	fixed(&t.by, "by", "what to count by", "prefix", "kind", "namespace", "field")
	fixed(&t.sort, "sort", "column that the largest come first of", "bytes", "keys", "writes", "written")
	f.StringVar(&t.kind, "kind", "", "count the fields of this kind, such as \"v1 Pod\", with --by field")
	f.StringVar(&t.since, "since", "", "count writes after this revision, or "+pointHelp)
	f.StringVar(&t.until, "until", "", "count at this revision instead of now, or "+pointHelp)
	f.BoolVar(&t.grown, "growth", false, "print what grew between --since and --until")
	f.IntVar(&t.levels, "levels", 2, "how many slashes a prefix goes on for, with --by prefix")
	f.IntVar(&t.limit, "limit", 20, "how many lines to print; 0 is all")
	o.register(cmd, "table", "json", "yaml", "html")
	r.register(cmd)
	cmd.RunE = r.reads(func(c *cobra.Command, s source.Store, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if t.grown {
			return t.growth(c, s, prefixOf(args), o)
		}
		return t.run(c, s, prefixOf(args), o)
	})
	return cmd
}

// span is what a count covers.
type span struct {
	Revision int64      `json:"revision"`
	Since    int64      `json:"since"` // what happened after this revision counts
	From     *time.Time `json:"from,omitempty"`
	To       *time.Time `json:"to,omitempty"`
}

// span returns the revisions that --since and --until name.
func (t *top) span(ctx context.Context, s source.Store, keys backend.Span) (all span, err error) {
	if t.until == "" {
		all.Revision, err = s.Now(ctx, keys)
	} else {
		all.Revision, err = pointOf(ctx, s, "until", t.until)
	}
	switch {
	case err != nil:
	case t.since == "":
		all.Since, err = s.Oldest(ctx, keys)
	default:
		all.Since, err = beginOf(ctx, s, keys, "since", t.since)
	}
	if err == nil && t.since == "" {
		all.Since = min(all.Since, all.Revision) // a compaction may have come in between
	}
	if err == nil && t.until == "" && all.Since > all.Revision {
		all.Revision, err = s.Now(ctx, keys) // or a write
	}
	if err == nil && all.Since > all.Revision {
		what := "what --until names"
		if t.until == "" {
			what = "the current one"
		}
		err = fmt.Errorf("%w: what --since names, revision %d, is after %s, revision %d", errSettings, all.Since, what,
			all.Revision)
	}
	return all, err
}

// times finds out when the revisions were committed.
func (x *span) times(ctx context.Context, s source.Store) (err error) {
	times := clock{store: s}
	if first := max(x.Since+1, 2); first <= x.Revision { // the revision before is that of the empty store
		if x.From, err = times.when(ctx, first); err != nil {
			return err
		}
	}
	x.To, err = times.when(ctx, x.Revision)
	return err
}

// between returns the times for a heading.
func (x *span) between() string {
	if x.From == nil || x.To == nil {
		return ""
	}
	return fmt.Sprintf(", from %s to %s", showTime(x.From), showTime(x.To))
}

// counted is the result.
type counted struct {
	span

	Groups []tally.Group `json:"groups"`
}

// names returns what names the groups, nil for fields.
func (t *top) names(prefix string) map[string]func(key, value []byte) string {
	return map[string]func(key, value []byte) string{
		"prefix": tally.ByPrefix(prefix, t.levels), "kind": tally.ByKind, "namespace": tally.ByNamespace, "field": nil,
	}
}

// counter counts rows and changes by group.
type counter interface {
	Live(r *backend.Row)
	Written(c *backend.Change)
}

// counter returns what counts, and its largest groups.
func (t *top) counter(prefix string) (counter, func() []tally.Group, error) {
	names := t.names(prefix)
	name, known := names[t.by]
	sort := tally.Sorts[t.sort]
	switch {
	case !known:
		return nil, nil, fmt.Errorf("%w: --by %q is not %s", errSettings, t.by, oneOf(slices.Sorted(maps.Keys(names))))
	case sort == nil:
		return nil, nil, fmt.Errorf("%w: --sort %q is not %s", errSettings, t.sort,
			oneOf(slices.Sorted(maps.Keys(tally.Sorts))))
	case t.by == "field":
		fields := tally.NewFields()
		return fields, func() []tally.Group { return fields.Largest(t.kind, sort, t.limit) }, nil
	case t.kind != "":
		return nil, nil, fmt.Errorf("%w: --kind needs --by field", errSettings)
	}
	groups := tally.NewTop(name)
	return groups, func() []tally.Group { return groups.Largest(sort, t.limit) }, nil
}

func (t *top) run(c *cobra.Command, s source.Store, prefix string, o *output) error {
	groups, largest, err := t.counter(prefix)
	if err != nil {
		return err
	}
	ctx, keys := c.Context(), source.Prefix(prefix)
	all := counted{}
	if all.span, err = t.span(ctx, s, keys); err != nil {
		return err
	}
	err = s.Rows(ctx, source.Query{Span: keys, Revision: all.Revision}, func(row *backend.Row) bool {
		groups.Live(row)
		return true
	})
	if err != nil {
		return err
	}
	q := source.Changes{Span: keys, After: all.Since, Until: all.Revision, WithPrev: t.by != "prefix"}
	err = s.Changes(ctx, q, func(ch *backend.Change) error {
		groups.Written(ch)
		return nil
	})
	if err != nil {
		return err
	}
	all.Groups = largest()
	if err := all.times(ctx, s); err != nil {
		return err
	}
	if o.form == "html" {
		return t.report(c, prefix, topreport.Counted(all.Revision, all.Since)+all.between(),
			topreport.Top("By "+t.by, t.heading(), all.Groups))
	}
	return o.print(c.OutOrStdout(), all, func(w io.Writer) error { return t.table(w, &all) })
}

func (t *top) table(w io.Writer, all *counted) error {
	_, _ = fmt.Fprintf(w, "revision %d; writes since revision %d%s\n\n", all.Revision, all.Since, all.between())
	rows := [][]string{{t.heading(), "KEYS", "BYTES", "WRITES", "DELETES", "WRITTEN"}}
	for i := range all.Groups {
		g := &all.Groups[i]
		rows = append(rows, []string{
			show.Key(g.Name), fmt.Sprint(g.Keys), humanize.IBytes(uint64(g.Bytes)), fmt.Sprint(g.Writes),
			fmt.Sprint(g.Deletes), humanize.IBytes(uint64(g.Written)),
		})
	}
	return columns(w, rows)
}
