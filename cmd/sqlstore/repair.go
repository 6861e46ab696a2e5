package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
)

const repairHelp = `Repair a database that lost history, for example in a failover to a standby that had not
received the last commits, or because it was restored from a backup or to a point in time.

Clients may then hold revisions that no longer exist, or that now stand for other writes.
--bump-revision N raises the database's revision to N and marks N as compacted. It deletes no
live key, and reads of the current state continue. Watches and lists that continue from a revision
below N get the error that it is compacted, and clients list again. N must be above every revision
that a client may have seen; a large margin costs nothing. --bump-by N adds N to the revision of the
database, or to the higher one that it is known to have had:

    sqlstore repair --datastore postgres://user@host/database --bump-revision 2000000
    sqlstore repair --data-dir /var/lib/sqlstore --bump-by 1000000000

Stop the server of a SQLite file first. On Postgres, replicas may keep running: they notice the change.`

// repair implements the command.
type repair struct {
	cfg  sqlstore.Config
	bump int64
	by   int64
	yes  bool

	settings backend.Settings // of the database
}

func repairCommand() *cobra.Command {
	r := &repair{}
	cmd := &cobra.Command{Use: "repair", Short: "Raise the revision above all that clients may have seen, after " +
		"history was lost", Long: repairHelp, Args: noArgs}
	registerDatabase(cmd.Flags(), &r.cfg)
	cmd.Flags().Int64Var(&r.bump, "bump-revision", 0,
		"revision to raise the database to; must be above the current one")
	cmd.Flags().Int64Var(&r.by, "bump-by", 0,
		"number to add to the revision, in place of --bump-revision; 1000000000 is 11 days of 1,000 writes a second")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "continue without asking")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		return r.run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
	}
	return cmd
}

func (r *repair) run(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	if (r.bump != 0) == (r.by != 0) || max(r.bump, r.by) <= 0 {
		return fmt.Errorf("%w: --bump-revision is required, from 1 on, or --bump-by", errSettings)
	}
	return withBackend(ctx, &r.cfg, func(b backend.Backend) error { return r.on(ctx, b, in, out, errOut) })
}

func (r *repair) on(ctx context.Context, b backend.Backend, in io.Reader, out, errOut io.Writer) error {
	now, err := b.Clock(ctx)
	if err != nil {
		return err
	}
	if state, err := b.Import(ctx); err != nil {
		return err
	} else if state.Source != 0 {
		return fmt.Errorf("nothing was changed: %w; an interrupted restore is such an import, and one with --follow "+
			"ends with 'sqlstore cutover'", backend.ErrImporting)
	}
	restorable, _ := b.(backend.Restorable)
	known := int64(0)
	if restorable != nil {
		known = restorable.Restored().Revision
	}
	if r.settings, err = b.Settings(ctx); err != nil {
		return err
	}
	if r.by != 0 {
		base := max(now.Revision, known)
		r.bump = base + min(r.by, math.MaxInt64-base)
	}
	if err := r.check(now, known); err != nil {
		return err
	}
	if !r.yes {
		if err := r.ask(in, errOut, now); err != nil {
			return err
		}
	}
	was, err := r.lift(ctx, b)
	if err == nil && restorable != nil {
		err = restorable.Raised(ctx)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "revision %d, compacted there (it was %d)\n", r.bump, was.Revision)
	return err
}

// check refuses a revision that the database has, or is known to have had.
func (r *repair) check(c backend.Clock, known int64) error {
	switch {
	case r.bump <= c.Revision:
		return fmt.Errorf("%w: --bump-revision %d: the database is already at revision %d", errSettings, r.bump,
			c.Revision)
	case r.bump <= known:
		return fmt.Errorf("%w: --bump-revision %d: the database was at revision %d before it was restored",
			errSettings, r.bump, known)
	}
	err := r.settings.Lifts(r.bump)
	switch {
	case err != nil && r.cfg.OnPostgres():
		return fmt.Errorf("%w: %w: choose a lower revision above all that clients may have seen", errSettings, err)
	case err != nil:
		return fmt.Errorf("%w: %w: choose a lower revision above all that clients may have seen, or first copy the "+
			"store into a database on Postgres, which holds more, with 'sqlstore import'", errSettings, err)
	}
	return nil
}

func (r *repair) ask(in io.Reader, out io.Writer, now backend.Clock) error {
	database, err := r.cfg.Database()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The database %s is at revision %d, the oldest readable revision is %d.\n"+
		"It will be at revision %d, which will be the oldest readable: history is lost, live keys stay, and all "+
		"watches restart.\n"+
		"This cannot be undone.\n", database, now.Revision, max(0, now.Compacted), r.bump)
	if err != nil {
		return err
	}
	return confirm(in, out, "revision", strconv.FormatInt(r.bump, 10))
}

// lift raises the clock, which others may have moved since it was read. It returns the previous revision.
func (r *repair) lift(ctx context.Context, b backend.Backend) (backend.Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tx, err := b.Begin(ctx, backend.Needs{})
	if err != nil {
		return backend.Clock{}, err
	}
	was := tx.Loaded().Clock
	if err := r.check(was, 0); err != nil {
		tx.Rollback()
		return was, err
	}
	err = tx.Commit(ctx, &backend.Effects{Revision: r.bump, Compacted: r.bump, Batch: rand.Int64N(1<<62) + 1})
	if errors.Is(err, backend.ErrUnknownOutcome) {
		return was, fmt.Errorf("%w: run the same command again to find out: it refuses a revision that was reached",
			err)
	}
	return was, err
}
