package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
)

const historyHelp = `Print the versions of a key that are not compacted: revision, time of the commit, size,
lease, and what changed. 'sqlstore get KEY --revision N' prints one of them, and 'sqlstore diff KEY' compares two.

    sqlstore history /registry/deployments/default/web

Of other servers than sqlstore, the times are not known.` + readerHelp

// version is one line of a history.
type version struct {
	Revision       int64      `json:"revision"`
	Time           *time.Time `json:"time,omitempty"` // of the commit, if it is known
	Version        int64      `json:"version"`        // since the key was created, 0 for a deletion
	Bytes          int64      `json:"bytes"`          // of the value
	Lease          string     `json:"lease,omitempty"`
	changes.Change `json:",inline"`
}

func historyCommand() *cobra.Command {
	r, o := &reader{}, &output{}
	limit := 0
	cmd := &cobra.Command{
		Use: "history KEY", Short: "Print the versions of a key, and what each changed", Long: historyHelp,
		Args: exactKey, ValidArgsFunction: r.completeKeys,
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "print only the last versions (default: all)")
	o.register(cmd, "table", "json", "yaml")
	r.register(cmd)
	cmd.RunE = r.reads(func(c *cobra.Command, s source.Store, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		all, oldest, err := versionsOf(c, s, args[0])
		switch {
		case err != nil:
			return err
		case len(all) == 0:
			return fmt.Errorf("%w: %s has no version since revision %d, the oldest readable one", errNoKey,
				show.Key(args[0]), oldest)
		}
		if limit > 0 && limit < len(all) {
			all = all[len(all)-limit:]
		}
		times := clock{store: s}
		for i := range all {
			if all[i].Time, err = times.when(c.Context(), all[i].Revision); err != nil {
				return err
			}
		}
		if times.silent {
			warn(c, source.ErrNoTimes.Error())
		}
		data := struct {
			keyed          `json:",inline"`
			OldestRevision int64     `json:"oldestRevision"`
			Versions       []version `json:"versions"`
		}{keyOf(args[0]), oldest, all}
		return o.print(c.OutOrStdout(), data, func(w io.Writer) error { return printVersions(w, all) })
	})
	return cmd
}

// versionsOf returns the readable versions of a key, the oldest first, and the oldest readable revision.
func versionsOf(c *cobra.Command, s source.Store, key string) (all []version, oldest int64, err error) {
	ctx, span := c.Context(), source.Key(key)
	if oldest, err = s.Oldest(ctx, span); err != nil {
		return nil, 0, err
	}
	now, err := s.Now(ctx, span)
	if err != nil {
		return nil, 0, err
	}
	var last *backend.Row
	add := func(row *backend.Row) {
		v := version{
			Revision: row.ModRevision, Version: row.Version, Bytes: int64(len(row.Value)),
			Change: changes.Describe(row, last),
		}
		if row.Lease != 0 {
			v.Lease = show.Lease(row.Lease)
		}
		all, last = append(all, v), row
	}
	if oldest > 0 { // the version at that revision is older than all changes that are left
		row, err := source.Get(ctx, s, key, oldest)
		if err != nil {
			return nil, 0, err
		}
		if row != nil {
			add(row)
		}
	}
	err = s.Changes(ctx, source.Changes{Span: span, After: oldest, Until: now}, func(ch *backend.Change) error {
		add(&ch.Row)
		return nil
	})
	return all, oldest, err
}

func printVersions(w io.Writer, all []version) error {
	rows := [][]string{{"REVISION", "TIME", "VERSION", "BYTES", "LEASE", "CHANGE"}}
	for i := range all {
		v := &all[i]
		rows = append(rows, []string{
			fmt.Sprint(v.Revision), showTime(v.Time), fmt.Sprint(v.Version), fmt.Sprint(v.Bytes),
			cmp.Or(v.Lease, "-"), cell(v.Line()),
		})
	}
	return columns(w, rows)
}
