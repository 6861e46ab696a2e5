package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
)

const revisionHelp = `Print the revision that was current at a time, or when a revision was committed.

    sqlstore revision --data-dir /var/lib/sqlstore --at 2026-11-23T14:03:00Z
    sqlstore revision --data-dir /var/lib/sqlstore --of 1234

With that revision, 'etcdctl get KEY --rev=REVISION' shows what was stored at that time, unless it is
compacted. Times are those of the database's machine. It changes nothing, and servers may keep running.`

func revisionCommand() *cobra.Command {
	cfg := &sqlstore.Config{}
	cmd := &cobra.Command{
		Use: "revision", Short: "Print which revision was current at a time, or when one was committed",
		Long: revisionHelp, Args: noArgs,
	}
	registerDatabase(cmd.Flags(), cfg)
	var at string
	var of int64
	cmd.Flags().StringVar(&at, "at", "", "time to look for, as 2026-11-23T14:03:00Z")
	cmd.Flags().Int64Var(&of, "of", 0, "revision to look for")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		if (at == "") == (of == 0) {
			return fmt.Errorf("%w: give either --at or --of", errSettings)
		}
		find := func(ctx context.Context, v backend.View) (backend.Commit, backend.Clock, error) {
			return v.WrittenAt(ctx, of)
		}
		if at != "" {
			t, err := time.Parse(time.RFC3339, at)
			if err != nil {
				return fmt.Errorf("%w: --at %q is not a time such as 2026-11-23T14:03:00Z", errSettings, at)
			}
			find = func(ctx context.Context, v backend.View) (backend.Commit, backend.Clock, error) {
				return v.CurrentAt(ctx, t)
			}
		}
		return withView(c.Context(), cfg, func(v backend.View) error {
			found, clock, err := find(c.Context(), v)
			if err != nil {
				return err
			}
			return printCommit(c.OutOrStdout(), found, clock)
		})
	}
	return cmd
}

func printCommit(out io.Writer, c backend.Commit, clock backend.Clock) error {
	readable := ""
	if errors.Is(clock.Check(c.Revision), backend.ErrCompacted) {
		readable = fmt.Sprintf(" (compacted: the oldest readable revision is %d)", clock.Compacted)
	}
	_, err := fmt.Fprintf(out, "revision %d, committed %s%s\n", c.Revision,
		c.At.UTC().Format("2006-01-02T15:04:05.000Z"), readable)
	return err
}
