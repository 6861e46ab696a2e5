package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/schema"
)

// errNotConfirmed is returned if nobody has agreed to the loss of data.
var errNotConfirmed = errors.New("nothing was changed: pass --yes, or type the answer at the terminal, to continue")

// errServed is returned if replicas are serving the database.
var errServed = errors.New("replicas are serving the database: stop them first")

// downgrade implements schema down. It asks before it removes anything.
type downgrade struct {
	to  int // -1: the previous version
	yes bool
	cfg *sqlstore.Config
}

func (d *downgrade) register(f *pflag.FlagSet) {
	f.IntVar(&d.to, "to", -1, "version to go back to (default: the previous one)")
	f.BoolVar(&d.yes, "yes", false, "agree to lose the data that the older version cannot store")
}

func (d *downgrade) run(ctx context.Context, c *cobra.Command, db *sql.DB) error {
	st, err := schema.Status(ctx, db)
	if err != nil {
		return err
	}
	now, to := int(st.Version), d.to
	if !c.Flags().Changed("to") {
		to = now - 1
	}
	if to < 0 || to >= now {
		return fmt.Errorf("%w: the schema is at version %d and cannot go back to %d", errSettings, now, to)
	}
	if d.cfg.OnPostgres() { // the server locks SQLite's file
		if err := refuseServed(ctx, db); err != nil {
			return err
		}
	}
	if !d.yes && st.Version <= st.Newest && !st.Dirty { // no need to ask about what Down refuses
		if err := tellLoss(ctx, c.ErrOrStderr(), db, now, to); err != nil {
			return err
		}
		if err := confirm(c.InOrStdin(), c.ErrOrStderr(), "version to go back to", strconv.Itoa(to)); err != nil {
			return err
		}
	}
	if err := schema.Down(ctx, db, now-to); err != nil {
		return err
	}
	return printStatus(ctx, c, db)
}

// refuseServed refuses a database that replicas are serving: they would fail, and lose the writes they have in flight.
func refuseServed(ctx context.Context, db *sql.DB) error {
	living, err := schema.Living(ctx, db)
	if err == nil && living > 0 {
		return fmt.Errorf("%w: %d of them sent a heartbeat in the last five seconds", errServed, living)
	}
	return err
}

// tellLoss prints what the downgrade loses and how to keep it.
func tellLoss(ctx context.Context, out io.Writer, db *sql.DB, now, to int) error {
	holds, err := schema.Measure(ctx, db)
	if err != nil {
		return err
	}
	loss := "loses what only newer versions can store"
	if to == 0 {
		loss = "removes ALL DATA"
	}
	_, err = fmt.Fprintf(out, "Going back from schema version %d to %d %s.\n"+
		"The database holds %s.\n"+
		"Only a copy of the database can undo it: make one first, while no server runs.\n", now, to, loss, holds)
	return err
}

// confirm waits for word at a terminal and treats any other answer as no.
func confirm(in io.Reader, out io.Writer, what, word string) error {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return errNotConfirmed // a pipe or a file: nobody can answer
		}
	}
	if _, err := fmt.Fprintf(out, "Type the %s (%s) to confirm: ", what, word); err != nil {
		return err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		_, _ = fmt.Fprintln(out) // end the line of the question
	}
	if strings.TrimSpace(line) != word || err != nil && !errors.Is(err, io.EOF) {
		return errNotConfirmed
	}
	return nil
}
