package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/schema"
)

func schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schema", Short: "Show or migrate the database's schema; stop the server of a SQLite file first",
		Args: noArgs, RunE: helpOnly,
	}
	cfg := &sqlstore.Config{}
	registerDatabase(cmd.PersistentFlags(), cfg)
	with := func(use, short string, f func(context.Context, *cobra.Command, *sql.DB) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
			if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
				return err
			}
			return cfg.WithDatabase(context.Background(), func(ctx context.Context, db *sql.DB) error {
				return f(ctx, c, db)
			})
		}}
	}
	status := with("status", "Print the version of the database's schema", printStatus)
	up := with("up", "Migrate to the newest version (a start also does this)",
		func(ctx context.Context, c *cobra.Command, db *sql.DB) error {
			if err := schema.Up(ctx, db, (&settings{logFormat: formatAuto}).logger(&slog.LevelVar{})); err != nil {
				return err
			}
			return printStatus(ctx, c, db)
		})
	cmd.AddCommand(status, up)
	return cmd
}

func printStatus(ctx context.Context, c *cobra.Command, db *sql.DB) error {
	st, err := schema.Status(ctx, db)
	if err != nil {
		return err
	}
	state := "up to date"
	switch {
	case st.Dirty:
		state = "dirty: a migration was interrupted"
	case st.Kine:
		state = "the database belongs to kine"
	case st.Version < st.Newest:
		state = "older than this program: sqlstore schema up, or a start, migrates it"
	case st.Version > st.Newest && st.Usable():
		state = "newer than this program, which can still serve it"
	case st.Version > st.Newest:
		state = "newer than this program"
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "version %d of %d (%s)\n", st.Version, st.Newest, state)
	return err
}
