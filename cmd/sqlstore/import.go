package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

const importHelp = `Copy a whole store, with its history, into an empty database.

    sqlstore import --from backup.db --data-dir /var/lib/sqlstore
    sqlstore import --from https://10.0.0.1:2379 --cacert ca.crt --cert client.crt --key client.key \
        --datastore postgres://user@host/database

The source is a snapshot of etcd or sqlstore, a copy of etcd's member/snap/db, a running server of either
(https://host:2379), a sqlstore's database (sqlite:///path, postgres://...), or kine's
(kine+sqlite:///path, kine+postgres://..., kine+mysql://...).

Values, revisions, versions, leases, users and roles, and the history above the source's compacted
revision stay as they are. A lease keeps its remaining time, if the source knows it; it counts on when the
first server opens the database. At the end, the HashKV of source and target are compared. Until then no
server opens the database. If the import is interrupted, run the same command again to continue.

With --follow, the database then follows a running server until the command is stopped, milliseconds
behind it; 'sqlstore cutover' ends that and opens the database. The command can be stopped and started
again at any time.`

// importer implements the command.
type importer struct {
	target sqlstore.Config
	source sourceFlags
	keepID bool
	follow bool
}

func importCommand() *cobra.Command {
	i := &importer{}
	cmd := &cobra.Command{
		Use: "import", Short: "Copy a store of etcd, kine or another sqlstore, with its history, into an empty " +
			"database",
		Long: importHelp, Args: noArgs,
	}
	f := cmd.Flags()
	i.source.register(f)
	registerDatabase(f, &i.target)
	f.BoolVar(&i.keepID, "keep-cluster-id", false, "give the database the cluster id of the source; only a running "+
		"server and a sqlstore's database know theirs")
	f.BoolVar(&i.follow, "follow", false, "go on copying what a running server commits, until 'sqlstore cutover'")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if i.follow {
			return i.runFollowing(ctx, c.OutOrStdout(), c.ErrOrStderr())
		}
		return i.run(ctx, c.OutOrStdout(), c.ErrOrStderr())
	}
	return cmd
}

func (i *importer) run(ctx context.Context, out, errOut io.Writer) error {
	i.target.DatastoreWait = -1
	src, err := i.source.open(ctx, errOut)
	if err != nil {
		return err
	}
	b, err := i.target.OpenBackend(ctx)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	c := src.Contents()
	err = i.load(ctx, b, src, transfer.Options{Mark: i.mark(c.Revision, c.Compacted, c.ClusterID)}, out, errOut)
	if err := errors.Join(err, b.Close(), src.Close()); err != nil {
		return err
	}
	return src.discard()
}

// load copies the source into the target, and says so.
func (i *importer) load(
	ctx context.Context, b backend.Backend, src *openSource, o transfer.Options, out, errOut io.Writer,
) error {
	contents := src.Contents()
	if i.keepID && contents.ClusterID == 0 {
		return fmt.Errorf("%w: --keep-cluster-id: the source does not know its cluster's id", errSettings)
	}
	p := newTransferProgress(errOut, contents)
	o.KeepClusterID, o.Progress = i.keepID, p.at
	result, err := transfer.Load(ctx, b, src.Source, o)
	p.end()
	if err != nil {
		return err
	}
	return printImported(out, result, contents)
}

// mark identifies the source, so that an import continues only from it.
func (i *importer) mark(of ...any) int64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, append([]any{i.source.name()}, of...)...)
	return int64(h.Sum64() | 1)
}

func printImported(out io.Writer, r *transfer.Result, c *backend.Contents) error {
	users := 0
	if c.Auth != nil {
		users = len(c.Auth.Users)
	}
	_, err := fmt.Fprintf(out, "%d keys, %d rows (%d of them now), %d leases, %d users\n"+
		"revision %d, compacted %d\nHashKV %d: source and target are equal\n",
		r.Keys, r.Rows, r.Written, len(c.Leases), users, r.Revision, max(r.Compacted, 0), r.Hash)
	return err
}

// openDatabaseSource opens a sqlstore's database to read it.
func openDatabaseSource(ctx context.Context, cfg *sqlstore.Config) (backend.Source, error) {
	cfg.DatastoreWait = -1
	if err := cfg.WithDatabase(ctx, holdsStore); err != nil {
		return nil, err
	}
	b, err := cfg.OpenBackend(ctx)
	if err != nil {
		return nil, err
	}
	return transfer.OpenDatabase(ctx, b)
}
