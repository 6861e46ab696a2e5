package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

const exportHelp = `Write a store, with its history, to an empty database of kine, as k3s uses it.

    sqlstore export --data-dir /var/lib/sqlstore --to kine+sqlite:///var/lib/rancher/k3s/server/db/state.db

Stop the server of a SQLite file first. On Postgres, replicas may keep running; what they write meanwhile
is not exported. kine keeps less than sqlstore: docs/moving-kine.md lists what.

To etcd, 'etcdctl snapshot save' and 'etcdutl snapshot restore' lead.`

func exportCommand() *cobra.Command {
	cfg := &sqlstore.Config{}
	var to string
	cmd := &cobra.Command{
		Use: "export", Short: "Write a store, with its history, to a database of kine", Long: exportHelp, Args: noArgs,
	}
	registerDatabase(cmd.Flags(), cfg)
	cmd.Flags().StringVar(&to, "to", "", "where to: kine+sqlite:///path, kine+postgres://... or kine+mysql://...")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		if err := checkExportTarget(to); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return withBackend(ctx, cfg, func(b backend.Backend) error {
			return exportKine(ctx, b, to, c.OutOrStdout(), c.ErrOrStderr())
		})
	}
	return cmd
}

func exportKine(ctx context.Context, b backend.Backend, to string, out, errOut io.Writer) (err error) {
	s, err := store.Open(ctx, b, store.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	x, err := s.Export(auth.With(ctx, auth.Server))
	if err != nil {
		return err
	}
	defer x.Close()
	size, err := b.Size(ctx)
	if err != nil {
		return err
	}
	p := newTransferProgress(errOut, &backend.Contents{Bytes: size.InUse})
	done := transfer.Progress{Step: "writing"}
	err = kine.Export(ctx, to, &kine.Store{
		Revision: x.Revision, Compacted: x.Compacted, Leases: granted(x.Leases),
		Rows: func(ctx context.Context, f func(backend.Row) error) error {
			return x.Rows(ctx, func(r backend.Row) error {
				done.Rows++
				done.Bytes += r.Size()
				p.at(done)
				return f(r)
			})
		},
	})
	p.end()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s up to revision %d in %s\n", show.Number(done.Rows, "row"), x.Revision,
		withoutPassword(to))
	return err
}

func granted(all []store.Lease) []backend.Lease {
	leases := make([]backend.Lease, len(all))
	for i, l := range all {
		leases[i] = backend.Lease{ID: l.ID, TTL: l.Granted}
	}
	return leases
}

// withoutPassword is a URL that may be shown.
func withoutPassword(name string) string {
	u, err := url.Parse(name)
	if err != nil {
		return "the target"
	}
	return u.Redacted()
}
