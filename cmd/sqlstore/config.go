package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
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
		showCommand(),
	)
	return cmd
}

func showCommand() *cobra.Command {
	o := &output{}
	cmd := configSubcommand("show", "Print the value of each setting and where it comes from",
		func(cmd *cobra.Command, s *settings, onCommandLine map[string]bool) error {
			if err := o.check(); err != nil {
				return err
			}
			return showConfig(cmd, s, onCommandLine, o)
		})
	o.register(cmd, "table", "json", "yaml")
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

// shownSetting is a setting as config show prints it.
type shownSetting struct {
	Setting string `json:"setting"`
	Value   any    `json:"value"` // a boolean, a number, a text or a list of texts
	Meaning string `json:"meaning,omitempty"`
	From    string `json:"from"`
}

// emptyMeaning is where the description of a setting says what an empty value means.
var emptyMeaning = regexp.MustCompile(`\(default: (.*)\)$`)

// showConfig prints the settings, with the defaults that a start computes in the place of values that stand for them.
func showConfig(cmd *cobra.Command, s *settings, onCommandLine map[string]bool, o *output) error {
	directory := dataDir(&s.config)
	s.config = s.config.WithDefaults()
	s.config.DataDir = directory
	var all []shownSetting
	rows := [][]string{{"SETTING", "VALUE", "FROM"}}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == outputFlag {
			return
		}
		line := shownSetting{
			Setting: f.Name, Value: shownValue(f, &s.config), From: sourceOf(f, s.configFile, onCommandLine),
		}
		cell := fmt.Sprint(line.Value)
		if list, ok := line.Value.([]string); ok {
			cell = strings.Join(list, ",")
		}
		if meaning := emptyMeaning.FindStringSubmatch(f.Usage); cell == "" && meaning != nil {
			line.Meaning = meaning[1]
			cell = "(" + line.Meaning + ")"
		}
		all = append(all, line)
		rows = append(rows, []string{line.Setting, cell, line.From})
	})
	return o.print(cmd.OutOrStdout(), all, func(w io.Writer) error { return columns(w, rows) })
}

// shownValue returns the value of a setting without secrets.
func shownValue(f *pflag.Flag, c *sqlstore.Config) any {
	text := withoutPasswords(f.Value.String()) // one may be in the wrong place
	switch f.Name {
	case "backup-to":
		if to := f.Value.String(); strings.Contains(to, "://") {
			return cmp.Or(bucketName(to, ""), "(invalid, perhaps with a password)")
		}
	case "datastore":
		if shown, err := c.Database(); err != nil {
			return "(invalid, perhaps with a password)"
		} else if c.OnPostgres() {
			return shown
		}
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		shown := []string{}
		for _, one := range list.GetSlice() {
			shown = append(shown, withoutPasswords(one))
		}
		return shown
	}
	switch f.Value.Type() {
	case "bool":
		return text == "true"
	case "int", "uint", "uint32", "bytes":
		return json.Number(text)
	}
	return text
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
