package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
)

const checkHelp = `Verify everything that a database holds, and list what is wrong with it:

- each row against its checksum,
- the versions of each key against each other, and the revisions for gaps,
- the commit times and the clock against the rows,
- the indexes against the table, in both directions,
- the structure of a SQLite file.

It changes nothing, and servers may keep running. On SQLite, the server's log grows while the file's
structure is verified; on Postgres, vacuum removes nothing until the end, as under pg_dump. The exit
status is 0 if all is well, and 1 if something is wrong or the check could not be finished.`

// errDamaged is returned after the problems were printed.
var errDamaged = errors.New("the database is damaged: docs/damage.md says what to do")

func checkCommand() *cobra.Command {
	cfg := &sqlstore.Config{}
	cmd := &cobra.Command{
		Use: "check", Short: "Verify the checksums, links and indexes of a whole database", Long: checkHelp,
		Args: noArgs,
	}
	registerDatabase(cmd.Flags(), cfg)
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		return withView(c.Context(), cfg, func(v backend.View) error {
			return check(c.Context(), v, c.OutOrStdout(), c.ErrOrStderr())
		})
	}
	return cmd
}

// withView opens the database for reading and passes it to f.
func withView(ctx context.Context, cfg *sqlstore.Config, f func(backend.View) error) error {
	v, err := cfg.OpenView(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(v), v.Close())
}

func check(ctx context.Context, v backend.View, out, errOut io.Writer) error {
	p := newProgress(errOut)
	i := &backend.Inspection{Progress: func(what string, done float64) {
		p.at(done, func() string { return fmt.Sprintf("checking: %s, %.0f %%", what, 100*done) })
	}}
	err := v.Inspect(ctx, i)
	p.end()
	for _, problem := range i.Problems {
		_, _ = fmt.Fprintln(out, problem)
	}
	if more := i.Found - int64(len(i.Problems)); more > 0 {
		_, _ = fmt.Fprintf(out, "and %d more\n", more)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s, %s\n", show.Number(i.Rows, "row"), show.Number(i.Found, "problem"))
	if err == nil && i.Found > 0 {
		err = errDamaged
	}
	return err
}
