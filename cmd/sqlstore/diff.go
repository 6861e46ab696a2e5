package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
)

const diffHelp = `Compare what was stored at two revisions or times. Of a key, the lines of its decoded value
that differ are printed. Of a prefix, which ends in a slash, the keys that were created, updated and deleted
in between are listed, with --full also their lines.

    sqlstore diff /registry/deployments/default/web --from 2h
    sqlstore diff /registry/secrets/ --from "2026-11-23 22:00" --to "2026-11-24 06:00"` + readerHelp

// errNoFrom is returned without a point to compare with.
var errNoFrom = errors.New("--from is required: a revision, or a time")

// differ implements the command.
type differ struct {
	from, to string
	full     bool
	prefix   bool
}

// compared is a key that differs. A row is nil where the key does not exist.
type compared struct {
	keyed          `json:",inline"`
	FromRevision   int64 `json:"fromRevision,omitempty"`
	ToRevision     int64 `json:"toRevision,omitempty"`
	changes.Change `json:",inline"`

	from, to *backend.Row
}

func diffCommand() *cobra.Command {
	r, o, d := &reader{}, &output{}, &differ{}
	cmd := &cobra.Command{
		Use: "diff KEY|PREFIX/", Short: "Compare a key or a prefix at two revisions or times", Long: diffHelp,
		Args: exactKey, ValidArgsFunction: r.completeKeys,
	}
	f := cmd.Flags()
	f.StringVar(&d.from, "from", "", "revision, or "+pointHelp)
	f.StringVar(&d.to, "to", "", "the same (default: now)")
	f.BoolVar(&d.full, "full", false, "print the lines that differ also for a prefix")
	f.BoolVar(&d.prefix, "prefix", false, "compare all keys that begin with the argument, also if it ends in no slash")
	o.register(cmd, "table", "json", "yaml")
	r.register(cmd)
	cmd.RunE = r.reads(func(c *cobra.Command, s source.Store, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		d.prefix = d.prefix || strings.HasSuffix(args[0], "/")
		span := source.Key(args[0])
		if d.prefix {
			span = source.Prefix(args[0])
		}
		from, to, err := d.points(c.Context(), s, span)
		if err != nil {
			return err
		}
		all, err := compareAt(c.Context(), s, span, from, to)
		if err != nil {
			return err
		}
		data := map[string]any{"fromRevision": from, "toRevision": to, "keys": all}
		return o.print(c.OutOrStdout(), data, func(w io.Writer) error {
			if d.prefix && !d.full {
				return printCompared(w, all)
			}
			return printUnified(w, all, from, to)
		})
	})
	return cmd
}

// points returns the two revisions.
func (d *differ) points(ctx context.Context, s source.Store, span backend.Span) (from, to int64, err error) {
	if d.from == "" {
		return 0, 0, fmt.Errorf("%w: %w", errSettings, errNoFrom)
	}
	if from, err = beginOf(ctx, s, span, "from", d.from); err != nil {
		return 0, 0, err
	}
	if d.to == "" {
		to, err = s.Now(ctx, span)
	} else {
		to, err = pointOf(ctx, s, "to", d.to)
	}
	if err == nil && from > to {
		err = fmt.Errorf("%w: --from is revision %d, after --to, which is revision %d", errSettings, from, to)
	}
	return from, to, err
}

// compareAt returns the keys of a span that differ between two revisions.
func compareAt(ctx context.Context, s source.Store, span backend.Span, from, to int64) ([]compared, error) {
	touched := map[string]bool{}
	q := source.Changes{Span: span, After: from, Until: to, KeysOnly: true}
	err := s.Changes(ctx, q, func(ch *backend.Change) error {
		touched[string(ch.Row.Key)] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := []compared{}
	for _, key := range slices.Sorted(maps.Keys(touched)) {
		k := compared{keyed: keyOf(key)}
		if k.from, err = source.Get(ctx, s, key, from); err != nil {
			return nil, err
		}
		if k.to, err = source.Get(ctx, s, key, to); err != nil {
			return nil, err
		}
		if k.describe() {
			all = append(all, k)
		}
	}
	return all, nil
}

// describe reports whether the key differs, and how.
func (k *compared) describe() bool {
	switch {
	case k.from == nil && k.to == nil:
		return false
	case k.to == nil:
		k.FromRevision, k.Change = k.from.ModRevision, changes.Describe(&backend.Row{Deleted: true}, k.from)
	case k.from == nil:
		row := *k.to
		row.Version = 1
		k.ToRevision, k.Change = k.to.ModRevision, changes.Describe(&row, nil)
	default:
		if bytes.Equal(k.from.Value, k.to.Value) && k.from.Lease == k.to.Lease &&
			k.from.CreateRevision == k.to.CreateRevision {
			return false
		}
		row := *k.to
		row.Version = 2 // it is compared with the other one, whatever happened in between
		k.FromRevision, k.ToRevision, k.Change = k.from.ModRevision, k.to.ModRevision, changes.Describe(&row, k.from)
	}
	return true
}

func printCompared(w io.Writer, all []compared) error {
	rows := [][]string{{"FROM", "TO", "KEY", "CHANGE"}}
	for i := range all {
		k := &all[i]
		rows = append(rows, []string{orNone(k.FromRevision), orNone(k.ToRevision), show.Key(k.Key), cell(k.Line())})
	}
	return columns(w, rows)
}

func orNone(revision int64) string {
	if revision == 0 {
		return "-"
	}
	return fmt.Sprint(revision)
}

func printUnified(w io.Writer, all []compared, from, to int64) error {
	for i := range all {
		k := &all[i]
		text := changes.Unified(fmt.Sprintf("%s (revision %d)", show.Key(k.Key), from),
			fmt.Sprintf("%s (revision %d)", show.Key(k.Key), to), textOf(k.from), textOf(k.to))
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// textOf returns a decoded value, "" for a key that does not exist.
func textOf(row *backend.Row) string {
	if row == nil {
		return ""
	}
	return kubeobject.Decode(row.Value, row.ModRevision).String()
}
