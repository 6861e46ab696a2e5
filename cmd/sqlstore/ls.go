package main

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
)

const lsHelp = `List keys, like a directory: what continues after the next slash is counted, with the bytes of keys and
values. With --recursive, all keys are listed.

    sqlstore ls /registry
    sqlstore ls /registry/pods/default/ --at 2h` + readerHelp

// listed is one line of a recursive listing.
type listed struct {
	keyed    `json:",inline"`
	Revision int64  `json:"revision"`
	Version  int64  `json:"version"`
	Lease    string `json:"lease,omitempty"`
	Bytes    int64  `json:"bytes"`
}

func lsCommand() *cobra.Command {
	r, o, p := &reader{}, &output{}, &pinned{}
	recursive := false
	cmd := &cobra.Command{
		Use: "ls [PREFIX]", Short: "List keys, or count keys and bytes per prefix", Long: lsHelp,
		Args: onePrefix, ValidArgsFunction: r.completeKeys,
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list every key")
	p.register(cmd)
	o.register(cmd, "table", "json", "yaml")
	r.register(cmd)
	cmd.RunE = r.reads(func(c *cobra.Command, s source.Store, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		prefix := prefixOf(args)
		q := source.Query{Span: source.Prefix(prefix)}
		var err error
		if q.Revision, err = p.find(c.Context(), s, q.Span); err != nil {
			return err
		}
		if recursive {
			return listKeys(c, s, q, o)
		}
		l := &tally.Listing{Prefix: prefix}
		if err := s.Rows(c.Context(), q, func(row *backend.Row) bool { l.Add(row); return true }); err != nil {
			return err
		}
		data := map[string]any{"prefix": prefix, "revision": q.Revision, "entries": l.Entries}
		return o.print(c.OutOrStdout(), data, func(w io.Writer) error {
			rows := [][]string{{"NAME", "KEYS", "BYTES"}}
			for _, e := range l.Entries {
				rows = append(rows, []string{show.Key(e.Name), fmt.Sprint(e.Keys), humanize.IBytes(uint64(e.Bytes))})
			}
			return columns(w, rows)
		})
	})
	return cmd
}

// listKeys prints every key.
func listKeys(c *cobra.Command, s source.Store, q source.Query, o *output) error {
	all := []listed{}
	err := s.Rows(c.Context(), q, func(row *backend.Row) bool {
		l := listed{keyed: keyOf(string(row.Key)), Revision: row.ModRevision, Version: row.Version, Bytes: row.Size()}
		if row.Lease != 0 {
			l.Lease = show.Lease(row.Lease)
		}
		all = append(all, l)
		return true
	})
	if err != nil {
		return err
	}
	return o.print(c.OutOrStdout(), map[string]any{"revision": q.Revision, "keys": all}, func(w io.Writer) error {
		rows := [][]string{{"KEY", "REVISION", "VERSION", "LEASE", "BYTES"}}
		for i := range all {
			lease := all[i].Lease
			if lease == "" {
				lease = "-"
			}
			rows = append(rows, []string{
				show.Key(all[i].Key), fmt.Sprint(all[i].Revision), fmt.Sprint(all[i].Version), lease,
				humanize.IBytes(uint64(all[i].Bytes)),
			})
		}
		return columns(w, rows)
	})
}
