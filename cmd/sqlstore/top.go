package main

import (
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
)

const topHelp = `Print what fills the store and what writes most: keys and bytes that exist now, and writes,
deletions and bytes written since a revision or time, by default in all history that is not compacted.
Bytes are those of keys and values; what was written and is not compacted yet also takes space.

    sqlstore top /registry --by kind
    sqlstore top --by field --kind "v1 Pod"
    sqlstore top --since 1h --sort writes

Fields are those of Kubernetes' objects in protobuf and JSON, such as spec and metadata.managedFields; kubectl's
copy of an applied object counts apart from the other annotations.

It reads all keys of the prefix, and the history.` + readerHelp

// top implements the command.
type top struct {
	by, sort, since, kind string
	levels, limit         int
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
	f.IntVar(&t.levels, "levels", 2, "how many slashes a prefix goes on for, with --by prefix")
	f.IntVar(&t.limit, "limit", 20, "how many lines to print; 0 is all")
	o.register(cmd, "table", "json", "yaml")
	r.register(cmd)
	cmd.RunE = r.reads(func(c *cobra.Command, s source.Store, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		return t.run(c, s, prefixOf(args), o)
	})
	return cmd
}

// counted is the result.
type counted struct {
	Revision int64         `json:"revision"`
	Since    int64         `json:"since"` // writes after this revision are counted
	From     *time.Time    `json:"from,omitempty"`
	To       *time.Time    `json:"to,omitempty"`
	Groups   []tally.Group `json:"groups"`
}

// counter counts rows and changes by group.
type counter interface {
	Live(r *backend.Row)
	Written(c *backend.Change)
}

// counter returns what counts, and its largest groups.
func (t *top) counter(prefix string) (counter, func() []tally.Group, error) {
	names := map[string]func(key, value []byte) string{
		"prefix": tally.ByPrefix(prefix, t.levels), "kind": tally.ByKind, "namespace": tally.ByNamespace, "field": nil,
	}
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
	ctx, span := c.Context(), source.Prefix(prefix)
	all := counted{}
	if all.Revision, err = s.Now(ctx, span); err != nil {
		return err
	}
	if t.since == "" {
		all.Since, err = s.Oldest(ctx, span)
	} else {
		all.Since, err = beginOf(ctx, s, span, "since", t.since)
	}
	if err != nil {
		return err
	}
	err = s.Rows(ctx, source.Query{Span: span, Revision: all.Revision}, func(row *backend.Row) bool {
		groups.Live(row)
		return true
	})
	if err != nil {
		return err
	}
	q := source.Changes{Span: span, After: all.Since, Until: all.Revision, WithPrev: t.by != "prefix"}
	err = s.Changes(ctx, q, func(ch *backend.Change) error {
		groups.Written(ch)
		return nil
	})
	if err != nil {
		return err
	}
	all.Groups = largest()
	times := clock{store: s}
	// The first revision is that of the empty store.
	if all.From, err = times.when(ctx, max(all.Since+1, 2)); err != nil {
		return err
	}
	if all.To, err = times.when(ctx, all.Revision); err != nil {
		return err
	}
	return o.print(c.OutOrStdout(), all, func(w io.Writer) error { return t.table(w, &all) })
}

func (t *top) table(w io.Writer, all *counted) error {
	span := ""
	if all.From != nil && all.To != nil {
		span = fmt.Sprintf(", from %s to %s", showTime(all.From), showTime(all.To))
	}
	_, _ = fmt.Fprintf(w, "revision %d; writes since revision %d%s\n\n", all.Revision, all.Since, span)
	heading := map[string]string{"prefix": "PREFIX", "kind": "KIND", "namespace": "NAMESPACE", "field": "FIELD"}[t.by]
	rows := [][]string{{heading, "KEYS", "BYTES", "WRITES", "DELETES", "WRITTEN"}}
	for i := range all.Groups {
		g := &all.Groups[i]
		group := g.Name
		if t.by == "prefix" || t.by == "field" {
			group = show.Key(group)
		}
		rows = append(rows, []string{
			group, fmt.Sprint(g.Keys), humanize.IBytes(uint64(g.Bytes)), fmt.Sprint(g.Writes), fmt.Sprint(g.Deletes),
			humanize.IBytes(uint64(g.Written)),
		})
	}
	return columns(w, rows)
}
