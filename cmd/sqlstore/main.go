// Command sqlstore serves the etcd v3.7 API on a SQL database.
//
//	sqlstore serve --data-dir /var/lib/sqlstore --listen-client-urls http://127.0.0.1:2379
//	sqlstore serve --datastore postgres://user@host/database --datastore-password-file /run/secrets/password
//
// Flags have etcd's names if etcd has the flag. Each is also an environment variable, SQLSTORE_ and the flag in
// capitals (SQLSTORE_DATA_DIR), and a key of the YAML file given with --config-file. Flags take precedence over
// variables, and variables over the file.
//
// `sqlstore etcd` takes etcd's command line, variables and file instead, and so does the binary under the name etcd.
//
// SIGHUP reads the file again. Log level, quota, compaction and TLS files may change; any other change is refused, and
// `sqlstore status` reports it. Closing the server's terminal also sends SIGHUP, which stops the server unless nohup
// started it. SIGTERM and SIGINT let requests in flight finish, checkpoint the database and end the process.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/setting"
)

func main() {
	setting.UseFlags(flagOf)
	err := run()
	if code, ok := errors.AsType[exitCode](err); ok {
		os.Exit(int(code))
	}
	if err != nil {
		if !errors.Is(err, errLogged) {
			fmt.Fprintln(os.Stderr, "sqlstore:", withoutPasswords(err.Error()))
		}
		os.Exit(1)
	}
}

func run() error {
	switch filepath.Base(os.Args[0]) {
	case etcdName:
		return runEtcd(os.Args[1:])
	case kineName:
		return runKine(os.Args[1:])
	}
	return command().Execute()
}

// exitCode ends the process with a code, after everything is said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// command returns the tree of commands. Without a subcommand it serves.
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
	// As etcd has it.
	root.Flags().Bool("version", false, "print the versions of sqlstore, of the etcd API, of Go and of SQLite")
	root.SetVersionTemplate(versions())
	root.AddCommand(
		serve, etcdCommand(), kineCommand(), statusCommand(), configCommand(), doctorCommand(), schemaCommand(),
		tokenKeysCommand(), repairCommand(), checkCommand(), importCommand(), cutoverCommand(), exportCommand(),
		backupCommand(), restoreCommand(), revisionCommand(), versionCommand(), getCommand(), lsCommand(),
		historyCommand(), diffCommand(), topCommand(), watchCommand(), benchCommand(), manCommand(),
	)
	return root
}
