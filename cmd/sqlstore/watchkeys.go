package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
)

const watchHelp = `Print each change below a prefix as it is committed: revision, time, what was done to which
key, and which fields changed. --from begins in the past. With -o json each change is a line, with -o yaml a
document, both with the decoded object.

    sqlstore watch /registry/deployments/
    sqlstore watch /registry/ --from 10m

Where the server does not tell when a revision was committed, the time is that at which the change arrived, in
parentheses.` + readerHelp

// seen is one change of a watch.
type seen struct {
	Revision       int64      `json:"revision"`
	Time           *time.Time `json:"time,omitempty"` // of the commit, if it is known
	keyed          `json:",inline"`
	Lease          string `json:"lease,omitempty"`
	changes.Change `json:",inline"`
	Object         any `json:"object,omitempty"`
}

func watchCommand() *cobra.Command {
	r, o := &reader{}, &output{}
	from := ""
	cmd := &cobra.Command{
		Use: "watch [PREFIX]", Short: "Print changes as they are committed, decoded", Long: watchHelp,
		Args: onePrefix, ValidArgsFunction: r.completeKeys,
	}
	cmd.Flags().StringVar(&from, "from", "", "also print what was committed after this revision, or "+pointHelp)
	o.register(cmd, "table", "json", "yaml")
	r.register(cmd)
	cmd.RunE = r.reads(func(c *cobra.Command, s source.Store, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		ctx, q := c.Context(), source.Changes{Span: source.Prefix(prefixOf(args)), WithPrev: true}
		var err error
		if from == "" {
			q.After, err = s.Now(ctx, q.Span)
		} else {
			q.After, err = beginOf(ctx, s, q.Span, "from", from)
		}
		if err != nil {
			return err
		}
		times := clock{store: s}
		return s.Changes(ctx, q, func(ch *backend.Change) error {
			e := seen{
				Revision: ch.Row.ModRevision, keyed: keyOf(string(ch.Row.Key)),
				Change: changes.Describe(&ch.Row, ch.Prev),
			}
			if ch.Row.Lease != 0 {
				e.Lease = show.Lease(ch.Row.Lease)
			}
			var err error
			if e.Time, err = times.when(ctx, e.Revision); err != nil {
				return err
			}
			return o.event(c.OutOrStdout(), &e, &ch.Row)
		})
	})
	return cmd
}

// event prints one change.
func (o *output) event(w io.Writer, e *seen, row *backend.Row) error {
	if o.form != "table" && !row.Deleted {
		e.Object = kubeobject.Decode(row.Value, row.ModRevision).Data()
	}
	switch o.form {
	case "json":
		return json.NewEncoder(w).Encode(e)
	case "yaml":
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
		return encode(w, "yaml", e)
	}
	at := showTime(e.Time)
	if e.Time == nil {
		at = "(" + time.Now().UTC().Format(stamp) + ")"
	}
	_, err := fmt.Fprintf(w, "%d  %s  %s  %s\n", e.Revision, at, show.Key(e.Key), cell(e.Line()))
	return err
}
