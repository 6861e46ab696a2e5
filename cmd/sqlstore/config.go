package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Check or show the settings of a server, without starting it", Args: noArgs,
		RunE: helpOnly,
	}
	cmd.AddCommand(
		configSubcommand("check", "Check the settings and the files that they name as a start would; neither "+
			"the database nor the place of backups is opened", checkConfig),
		configSubcommand("show", "Print the value of each setting and where it comes from", showConfig),
	)
	return cmd
}

// configSubcommand takes the settings of serve from the same sources as serve, and passes them to f.
func configSubcommand(
	use, short string, f func(cmd *cobra.Command, s *settings, onCommandLine map[string]bool) error,
) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{Use: use + " [flags of serve]", Short: short, Args: noArgs}
	s.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		set := given(cmd.Flags())
		err := errors.Join(applySettings(cmd.Flags(), os.LookupEnv), refuseUnknown(cmd.Flags(), os.Environ()))
		if err != nil {
			return err
		}
		return f(cmd, s, set)
	}
	return cmd
}

func checkConfig(cmd *cobra.Command, s *settings, _ map[string]bool) error {
	if err := s.finish(); err != nil {
		return err
	}
	if err := s.config.Check(); err != nil {
		return err
	}
	database, err := s.config.Database()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Found no error. A server with these settings uses the database %s.\n",
		database)
	return err
}

func showConfig(cmd *cobra.Command, s *settings, onCommandLine map[string]bool) error {
	rows := [][]string{{"SETTING", "VALUE", "FROM"}}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			rows = append(rows, []string{f.Name, shownValue(f, &s.config), sourceOf(f, s.configFile, onCommandLine)})
		}
	})
	return columns(cmd.OutOrStdout(), rows)
}

// shownValue returns the value of a setting without secrets.
func shownValue(f *pflag.Flag, c *sqlstore.Config) string {
	value := f.Value.String()
	if f.Name == "backup-to" && strings.Contains(value, "://") {
		return cmp.Or(bucketName(value, ""), "(invalid, perhaps with a password)")
	}
	if f.Name != "datastore" {
		return value
	}
	switch shown, err := c.Database(); {
	case err != nil:
		return "(invalid, perhaps with a password)"
	case c.OnPostgres():
		return shown
	}
	return value
}

// sourceOf returns where the value of a setting comes from.
func sourceOf(f *pflag.Flag, file string, onCommandLine map[string]bool) string {
	switch name := variable(f.Name); {
	case onCommandLine[f.Name]:
		return "--" + f.Name
	case os.Getenv(name) != "":
		return name
	case f.Changed:
		return file
	}
	return "default"
}
