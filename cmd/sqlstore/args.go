package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArgs refuses arguments. One that may hold a secret, as a DSN given without its flag does, is not shown.
func noArgs(cmd *cobra.Command, args []string) error {
	for _, a := range args {
		if strings.ContainsAny(a, ":@=") {
			return fmt.Errorf("%w: there is an argument without its flag; a database is named by --datastore", errSettings)
		}
	}
	return cobra.NoArgs(cmd, args)
}
