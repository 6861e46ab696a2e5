package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
)

// bumpSpare is how far below the end of the numbers a repaired clock must stay: no store gets there by itself, and one that is
// there can write no more.
const bumpSpare = 1 << 62

const repairHelp = `Repair a database whose history was lost, as after a failover to a standby that had not received the last commits.

Clients may then hold revisions that exist no more, or that others have taken meanwhile. --bump-revision N lifts the database's
revision to N and marks N as compacted: nothing is deleted, reads of the current state go on, and every watch or list that
a client continues from a revision below N is told that it is compacted, so that the client lists again. N must be above every
revision that a client can have seen; a generous distance costs nothing:

    sqlstore repair --datastore postgres://user@host/database --bump-revision 2000000

A server must not run on a SQLite file meanwhile. On Postgres replicas may run: they notice.`

// repair is the command of that name.
type repair struct {
	cfg  sqlstore.Config
	bump int64
	yes  bool
}

func repairCommand() *cobra.Command {
	r := &repair{}
	cmd := &cobra.Command{Use: "repair", Short: "Lift the revision past all that clients may have seen, after history was lost", Long: repairHelp, Args: noArgs}
	registerDatabase(cmd.Flags(), &r.cfg)
	cmd.Flags().Int64Var(&r.bump, "bump-revision", 0, "revision to lift the database to; it must be above the current one")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "go on without a question")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		return r.run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
	}
	return cmd
}

func (r *repair) run(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	if r.bump <= 0 || r.bump > bumpSpare {
		return fmt.Errorf("%w: --bump-revision must be given, from 1 to %d", errSettings, int64(bumpSpare))
	}
	return withBackend(ctx, &r.cfg, func(b backend.Backend) error { return r.on(ctx, b, in, out, errOut) })
}

func (r *repair) on(ctx context.Context, b backend.Backend, in io.Reader, out, errOut io.Writer) error {
	now, err := b.Clock(ctx)
	if err != nil {
		return err
	}
	if err := r.check(now); err != nil {
		return err
	}
	if !r.yes {
		if err := r.ask(in, errOut, now); err != nil {
			return err
		}
	}
	was, err := r.lift(ctx, b)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "revision %d, compacted there (it was %d)\n", r.bump, was.Revision)
	return err
}

func (r *repair) check(c backend.Clock) error {
	if r.bump <= c.Revision {
		return fmt.Errorf("%w: --bump-revision %d: the database is at revision %d already", errSettings, r.bump, c.Revision)
	}
	return nil
}

func (r *repair) ask(in io.Reader, out io.Writer, now backend.Clock) error {
	database, err := r.cfg.Database()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The database %s is at revision %d, the oldest that can be read is %d.\n"+
		"It will be at revision %d, and that will be the oldest: all history goes, no live key does, and all watches start anew.\n"+
		"There is no way back.\n", database, now.Revision, max(0, now.Compacted), r.bump)
	if err != nil {
		return err
	}
	return confirm(in, out, "revision", strconv.FormatInt(r.bump, 10))
}

// lift moves the clock, which others may have moved since it was looked at. It returns what it was before.
func (r *repair) lift(ctx context.Context, b backend.Backend) (backend.Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tx, err := b.Begin(ctx, backend.Needs{})
	if err != nil {
		return backend.Clock{}, err
	}
	was := tx.Loaded().Clock
	if err := r.check(was); err != nil {
		tx.Rollback()
		return was, err
	}
	err = tx.Commit(ctx, &backend.Effects{Revision: r.bump, Compacted: r.bump, Batch: rand.Int64N(1<<62) + 1})
	if errors.Is(err, backend.ErrUnknownOutcome) {
		return was, fmt.Errorf("%w: run the same command again to find out: it refuses a revision that was reached", err)
	}
	return was, err
}
