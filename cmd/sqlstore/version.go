package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
)

// versions returns what the version command and --version print.
func versions() string {
	return fmt.Sprintf("sqlstore %s\netcd API %s\nGo       %s %s/%s\n",
		sqlstore.Version, sqlstore.EtcdVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of sqlstore, of the etcd API that it serves, and of Go",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(map[string]string{
					"sqlstore": sqlstore.Version, "etcd": sqlstore.EtcdVersion, "go": runtime.Version(),
				})
			}
			_, err := fmt.Fprint(out, versions())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
