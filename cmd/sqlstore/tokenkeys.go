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

const tokenKeysHelp = `Look at the keys that seal the continue tokens of the list/watch API, or make a new one.

A continue token holds the key at which a list goes on, which may be a secret; it is encrypted with a key that all servers over one
database share. The first key is made when it is needed. The newest one seals; the others open what they have sealed, so that lists
under way go on over a rotation. 'rotate --revoke' drops the others: their tokens are answered with 400 Bad Request.

On Postgres replicas may serve meanwhile; they use a new key, and refuse those dropped, within a minute. A SQLite database belongs to
its server: stop that first, rotate, and start it again. The keys themselves are never shown.`

func tokenKeysCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token-keys", Short: "Look at the keys that seal continue tokens, or rotate them", Long: tokenKeysHelp, Args: noArgs, RunE: helpOnly}
	cfg := &sqlstore.Config{}
	registerDatabase(cmd.PersistentFlags(), cfg)
	with := func(use, short string, f func(context.Context, io.Writer, backend.TokenKeys) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
			if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
				return err
			}
			return withBackend(c.Context(), cfg, func(b backend.Backend) error { return f(c.Context(), c.OutOrStdout(), b) })
		}}
	}
	var revoke bool
	rotate := with("rotate", "Make a new key, which seals from now on", func(ctx context.Context, out io.Writer, keys backend.TokenKeys) error {
		id, err := paging.Rotate(ctx, keys, revoke)
		if err != nil {
			return fmt.Errorf("rotate token keys: %w: 'sqlstore token-keys list' shows what there is now", err)
		}
		return tellRotated(out, id, revoke)
	})
	rotate.Flags().BoolVar(&revoke, "revoke", false, "drop the keys before it: tokens that they have sealed are refused, and lists under way begin anew")
	cmd.AddCommand(with("list", "Print the keys' ids, and when they were made", listTokenKeys), rotate)
	return cmd
}

func tellRotated(out io.Writer, id int64, revoked bool) error {
	others := "those before it open what they have sealed"
	if revoked {
		others = "those before it are dropped"
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
		_, err := fmt.Fprintln(out, "no key yet: the first list in pages makes one")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tMADE\tUSE") // the writer keeps its error for Flush
	for i, k := range all {
		use := "opens"
		if i == len(all)-1 {
			use = "seals and opens"
		}
		_, _ = fmt.Fprintf(w, "%d\t%s\t%s\n", k.ID, k.Made.UTC().Format(time.RFC3339), use)
	}
	return w.Flush()
}
