package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend/sqlite"
)

// commit and date of the source. Releases set them at link time; other builds have what the go command recorded.
var commit, date string

// builtFrom returns the commit that the program was built from, and its date.
func builtFrom() (revision, committed string) {
	const unknown = "unknown"
	recorded := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			recorded[s.Key] = s.Value
		}
	}
	revision = cmp.Or(commit, recorded["vcs.revision"], unknown)
	if commit == "" && recorded["vcs.modified"] == "true" {
		revision += "-modified"
	}
	return revision, cmp.Or(date, recorded["vcs.time"], unknown)
}

// versions returns what the version command and --version print.
func versions() string {
	revision, committed := builtFrom()
	return fmt.Sprintf("sqlstore %s\ncommit   %s\ndate     %s\netcd API %s\nGo       %s %s/%s\nSQLite   %s\n",
		sqlstore.Version, revision, committed, sqlstore.EtcdVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH,
		sqlite.LibraryVersion())
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of sqlstore, of the etcd API that it serves, of Go and of SQLite",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if asJSON {
				revision, committed := builtFrom()
				return json.NewEncoder(out).Encode(map[string]string{
					"sqlstore": sqlstore.Version, "commit": revision, "date": committed,
					"etcd": sqlstore.EtcdVersion, "go": runtime.Version(), "sqlite": sqlite.LibraryVersion(),
				})
			}
			_, err := fmt.Fprint(out, versions())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
