package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/internal/transfer"
	"github.com/sqlstore/sqlstore/internal/transfer/live"
)

const cutoverHelp = `End what 'sqlstore import --follow' began: catch up with the source, compare, and open
the database.

    sqlstore cutover --from https://10.0.0.1:2379 --cacert ca.crt --data-dir /var/lib/sqlstore

Stop the following and the clients of the source first; a following that still runs writes nothing more,
and ends with an error. The command waits until the source has been
quiet for --quiet, copies the rest, and compares the HashKV of both. If they are equal, servers can open
the database, and revisions continue where the source ended. Otherwise nothing changes.`

// cutover implements the command.
type cutover struct {
	importer
	quiet time.Duration
}

func cutoverCommand() *cobra.Command {
	c := &cutover{}
	cmd := &cobra.Command{
		Use: "cutover", Short: "End an import that follows a running server, and open the database",
		Long: cutoverHelp, Args: noArgs,
	}
	f := cmd.Flags()
	c.source.register(f)
	registerDatabase(f, &c.target)
	f.BoolVar(&c.keepID, "keep-cluster-id", false, "give the database the cluster id of the source")
	durationVar(f, &c.quiet, "quiet", 3*time.Second, "how long the source must have written nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := applyEnvironment(cmd.Flags(), given(cmd.Flags()), os.LookupEnv); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return interrupted(ctx, c.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr()))
	}
	return cmd
}

func (c *cutover) run(ctx context.Context, out, errOut io.Writer) error {
	server, err := c.source.server()
	if err != nil {
		return err
	}
	snapshot, err := c.snapshotPath()
	if err != nil {
		return err
	}
	c.target.DatastoreWait = -1
	b, err := c.target.OpenBackend(ctx)
	if err != nil {
		return fmt.Errorf("%w; if 'sqlstore import --follow' still runs, stop it", err)
	}
	to, err := transfer.Resume(ctx, b, c.followMark())
	if err != nil {
		return errors.Join(err, b.Close())
	}
	_, _ = fmt.Fprintf(errOut, "catching up from revision %d, until the source is quiet for %s\n", to.Revision(),
		c.quiet)
	shown := time.Now()
	done, err := live.CutOver(ctx, server, to, live.Options{
		Quiet: c.quiet, Snapshot: snapshot, KeepClusterID: c.keepID,
		Progress: func(now live.State, quiet time.Duration) {
			if time.Since(shown) >= lineEvery && now.Key != nil {
				shown = time.Now()
				_, _ = fmt.Fprintf(errOut, "waiting: the source wrote %s at revision %d, %s ago\n",
					show.Key(string(now.Key)), now.Revision, readable(quiet))
			}
		},
	})
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "revision %d, compacted %d\n%sthe database is open; the source's last write was %s ago\n",
		done.Revision, done.Compacted, equalHashes(done.Hash, done.Raised), readable(done.Duration))
	return err
}
