package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
)

const getHelp = `Print the value of a key, also one that it had earlier.

    sqlstore get /registry/deployments/default/web
    sqlstore get /registry/deployments/default/web --at "2026-11-23 14:03"

Objects of Kubernetes are printed as 'kubectl get -o yaml' prints them, and with -o json as JSON. Of an
encrypted value the provider and the name of its key are shown; bytes that are no text are shown as hex,
and -o raw writes them as they are stored.` + readerHelp

func getCommand() *cobra.Command {
	r, o, p := &reader{}, &output{}, &pinned{}
	cmd := &cobra.Command{
		Use: "get KEY", Short: "Print a key's value at a revision or time, decoded", Long: getHelp,
		Args: exactKey, ValidArgsFunction: r.completeKeys,
	}
	p.register(cmd)
	o.register(cmd, "yaml", "json", "raw")
	r.register(cmd)
	cmd.RunE = r.reads(func(c *cobra.Command, s source.Store, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		revision, err := p.find(c.Context(), s, source.Key(args[0]))
		if err != nil {
			return err
		}
		row, err := source.Get(c.Context(), s, args[0], revision)
		switch {
		case err != nil:
			return err
		case row == nil:
			return fmt.Errorf("%w: %s at revision %d; 'sqlstore history %[2]s' shows its versions, if there are any",
				errNoKey, show.Key(args[0]), revision)
		}
		out := c.OutOrStdout()
		object := kubeobject.Decode(row.Value, row.ModRevision)
		switch o.form {
		case "raw":
			_, err = out.Write(row.Value)
		case "json":
			err = encode(out, "json", object.Data())
		default:
			_, err = fmt.Fprint(out, object)
		}
		return err
	})
	return cmd
}
