package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/paging"
)

const tokenKeysHelp = `Show the keys that seal the continue tokens of the list/watch API, or make a new one.

A continue token contains the key at which a list continues, which may be a secret. It is
encrypted with a key that all servers over one database share. The first key is made when it is
needed. The newest key seals; older keys still open what they sealed, so that lists in progress
survive a rotation. 'rotate --revoke' drops the older keys: their tokens then get 400 Bad Request.

On Postgres, replicas may keep running; they use a new key, and refuse dropped ones, within a
minute. With SQLite, stop the server, rotate, and start it again. The keys themselves are never
shown.`

func tokenKeysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token-keys", Short: "Show the keys that seal continue tokens, or rotate them",
		Long: tokenKeysHelp, Args: noArgs, RunE: helpOnly,
	}
	cfg := &sqlstore.Config{}
	registerDatabase(cmd.PersistentFlags(), cfg)
	with := func(use, short string, f func(context.Context, io.Writer, backend.TokenKeys) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
			if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
				return err
			}
			return withBackend(c.Context(), cfg, func(b backend.Backend) error {
				return f(c.Context(), c.OutOrStdout(), b)
			})
		}}
	}
	var revoke bool
	rotate := with("rotate", "Make a new key, which seals from now on",
		func(ctx context.Context, out io.Writer, keys backend.TokenKeys) error {
			id, err := paging.Rotate(ctx, keys, revoke)
			if err != nil {
				return fmt.Errorf("rotate token keys: %w: 'sqlstore token-keys list' shows the current keys", err)
			}
			return printRotated(out, id, revoke)
		})
	rotate.Flags().BoolVar(&revoke, "revoke", false,
		"drop the older keys: the tokens they sealed are refused, and lists in progress start over")
	cmd.AddCommand(with("list", "Print the keys' ids and creation times", listTokenKeys), rotate)
	return cmd
}

func printRotated(out io.Writer, id int64, revoked bool) error {
	others := "older keys open what they sealed"
	if revoked {
		others = "older keys are dropped"
	}
	_, err := fmt.Fprintf(out, "key %d seals from now on, %s\n", id, others)
	return err
}

func listTokenKeys(ctx context.Context, out io.Writer, keys backend.TokenKeys) error {
	all, err := keys.TokenKeys(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no key yet: the first paged list makes one")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tMADE\tUSE") // the writer keeps its error for Flush
	for i, k := range all {
		use := "opens"
		if i == len(all)-1 {
			use = "seals and opens"
		}
		_, _ = fmt.Fprintf(w, "%d\t%s\t%s\n", k.ID, k.Created.UTC().Format(time.RFC3339), use)
	}
	return w.Flush()
}
