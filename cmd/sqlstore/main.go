// Command sqlstore serves the etcd v3.7 API on a SQL database.
//
//	sqlstore serve --data-dir /var/lib/sqlstore --listen-client-urls http://127.0.0.1:2379
//	sqlstore serve --datastore postgres://user@host/database --datastore-password-file /run/secrets/password
//
// Flags have etcd's names where etcd has one. Each is also an environment variable, SQLSTORE_ and the flag in capitals
// (SQLSTORE_DATA_DIR), and a key of the YAML file that --config-file names. A flag wins over the variable, the variable over
// the file. On SIGHUP the file is read again: log level, quota, compaction and TLS files may have changed, any other change is
// refused by name, and told by `sqlstore status`. The SIGHUP that comes when the server's terminal is closed ends it, unless
// nohup started it. SIGTERM and SIGINT let requests in flight finish, checkpoint the database and end the process.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
)

func main() {
	if err := command().Execute(); err != nil {
		if !errors.Is(err, errLogged) {
			fmt.Fprintln(os.Stderr, "sqlstore:", err)
		}
		os.Exit(1)
	}
}

// command is the tree of commands; without a subcommand it serves.
func command() *cobra.Command {
	serve := serveCommand()
	root := &cobra.Command{
		Use:           "sqlstore",
		Short:         "The etcd v3.7 API on a SQL database",
		Args:          noArgs,
		RunE:          serve.RunE,
		Version:       sqlstore.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(flagError)
	root.Flags().AddFlagSet(serve.Flags())
	root.Flags().Bool("version", false, "print the versions of sqlstore, of the etcd API and of Go") // as etcd has it
	root.SetVersionTemplate(versions())
	root.AddCommand(serve, statusCommand(), schemaCommand(), tokenKeysCommand(), repairCommand(), versionCommand())
	return root
}
