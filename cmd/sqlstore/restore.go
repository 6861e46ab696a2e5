package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

const restoreHelp = `Restore a store from a backup, or put keys of a running store back.

    sqlstore restore --from /var/backups/sqlstore --data-dir /var/lib/sqlstore
    sqlstore restore --from s3://bucket --to-time "2026-11-23 14:03" --datastore postgres://user@host/database

With --from, a whole store is restored into an empty database: as it was saved last, or at --to-revision or
--to-time. It gets new revisions, a billion above the newest of the backups, and what is older counts as
compacted. So clients of the lost store list again, and no revision stands for two states.

    sqlstore restore --keys /registry/configmaps/default/ --to-time "2026-11-23 14:03"
    sqlstore restore --keys /registry/secrets/default/token --exact --to-revision 1234
    sqlstore restore --keys /registry/configmaps/default/ --from s3://bucket --to-time "2026-11-23 14:03"

With --keys, keys of a running store become what they were, as new writes. The command reads the old values
from the history of the server at --endpoint, sqlstore or etcd, or with --from from a backup, prints what
differs, and asks before it writes. Keys that did not exist then stay, unless --delete-new is given. A key
that somebody else changes after the comparison stays as it is, and is reported. If the command is
interrupted, run it again with the revision that it has printed: it writes the rest.`

// The flags that mean something only with --keys, only without, or only with --from.
var (
	keysOnly   = []string{"endpoint", "exact", "delete-new", "skip-expired", "full", "dry-run"}
	storeOnly  = []string{"data-dir", "datastore", "keep-revisions", "keep-cluster-id"}
	backupOnly = []string{"chain", "identity-file", "work-dir"}
)

func restoreCommand() *cobra.Command {
	s, k := &storeRestorer{}, &keyRestorer{}
	cmd := &cobra.Command{
		Use: "restore", Short: "Restore a store from a backup, or put keys of a running store back", Long: restoreHelp,
		Args: noArgs,
	}
	s.register(cmd.Flags())
	k.register(cmd)
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		asked := given(c.Flags())
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		if err := refuseMixed(asked, len(k.keys) > 0, s.bucket.at != ""); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		switch {
		case len(k.keys) == 0 && s.bucket.at == "":
			return fmt.Errorf("%w: give --from, the backups of a store, or --keys, the prefix of the keys to put back",
				errSettings)
		case len(k.keys) == 0:
			return s.run(ctx, k.toRevision, k.toTime, c.OutOrStdout(), c.ErrOrStderr())
		case s.bucket.at != "":
			k.saved = s
		}
		return k.run(ctx, c)
	}
	return cmd
}

// refuseMixed refuses flags that would have no effect, of those that the command line has.
func refuseMixed(asked map[string]bool, keys, saved bool) error {
	useless, why := keysOnly, "is for keys of a running store: give --keys, too"
	if keys {
		useless, why = storeOnly, "is for a whole store: --keys writes to the server at --endpoint"
	}
	refuse := func(names []string, why string) error {
		for _, name := range names {
			if asked[name] {
				return fmt.Errorf("%w: --%s %s", errSettings, name, why)
			}
		}
		return nil
	}
	if err := refuse(useless, why); err != nil || saved {
		return err
	}
	return refuse(backupOnly, "is for backups: give --from, too")
}
