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
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
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
		run := i.run
		if i.follow {
			run = i.runFollowing
		}
		return interrupted(ctx, run(ctx, c.OutOrStdout(), c.ErrOrStderr()))
	}
	return cmd
}

func (i *importer) run(ctx context.Context, out, errOut io.Writer) error {
	i.target.DatastoreWait = -1
	mark, err := checkTarget(ctx, &i.target)
	if err != nil {
		return err
	}
	src, err := i.open(ctx, mark, errOut)
	if err != nil {
		return err
	}
	b, err := i.target.OpenBackend(ctx)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	err = i.load(ctx, b, src, transfer.Options{Mark: i.contentsMark("", src.Contents())}, out, errOut)
	return errors.Join(err, b.Close(), src.Close())
}

// open opens the source for a target that has the mark of an import, or 0.
func (i *importer) open(ctx context.Context, mark int64, errOut io.Writer) (*openSource, error) {
	path, err := i.snapshotPath()
	if err != nil {
		return nil, err
	}
	src, err := i.source.open(ctx, &snapshotFile{path: path, begun: mark != 0}, errOut)
	if err != nil {
		return nil, err
	}
	if i.keepID && src.Contents().ClusterID == 0 {
		err := fmt.Errorf("%w: --keep-cluster-id: the source does not know its cluster's id", errSettings)
		return nil, errors.Join(err, src.Close())
	}
	return src, nil
}

func (i *importer) snapshotPath() (string, error) {
	target, err := targetName(&i.target)
	if err != nil {
		return "", err
	}
	return i.source.snapshotPath(fmt.Sprint("import, follow ", i.follow), target), nil
}

// load copies the source into the target, and says so.
func (i *importer) load(
	ctx context.Context, b backend.Backend, src *openSource, o transfer.Options, out, errOut io.Writer,
) error {
	contents := src.Contents()
	p := newTransferProgress(errOut, contents)
	o.KeepClusterID, o.Progress = i.keepID, p.at
	result, err := transfer.Load(ctx, b, src.Source, o)
	p.end()
	src.keep = err != nil && continues(ctx, b, o.Mark, err)
	if err != nil {
		return err
	}
	return printImported(out, result, contents)
}

// errInterrupted is returned after a signal.
var errInterrupted = errors.New("interrupted: run the same command again to continue")

// interrupted returns errInterrupted in place of an error that comes from a signal, which ends ctx.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// continues reports whether the next run continues the import with this mark, after an error.
func continues(ctx context.Context, b backend.Backend, mark int64, err error) bool {
	if errors.Is(err, transfer.ErrDiffers) || errors.Is(err, backend.ErrDamagedSource) {
		return false
	}
	state, err := b.Import(context.WithoutCancel(ctx))
	return err != nil || state.Source == mark
}

// contentsMark identifies what is imported: the source, and its state.
func (i *importer) contentsMark(what string, c *backend.Contents) int64 {
	return i.mark(what, c.Revision, c.Compacted, c.ClusterID)
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
	_, err := fmt.Fprintf(out, "%s, %s (%d of them now), %s, %s\n"+
		"revision %d, compacted %d\n%s",
		show.Number(r.Keys, "key"), show.Number(r.Rows, "row"), r.Written, show.Number(len(c.Leases), "lease"),
		show.Number(users, "user"),
		r.Revision, max(r.Compacted, 0), equalHashes(r.Hash, c.Raised))
	return err
}

// equalHashes says that source and target have the same HashKV. If raised is not 0, that of a server on the source is
// another one: see [backend.Contents.Raised].
func equalHashes(hash uint32, raised int64) string {
	said := fmt.Sprintf("HashKV %d: source and target are equal", hash)
	if raised > 0 {
		said += fmt.Sprintf(", but for the empty entry with which etcdutl raised the source's revision to %d", raised)
	}
	return said + "\n"
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
