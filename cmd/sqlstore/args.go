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
	if len(args) > 0 && cmd.HasSubCommands() {
		cmd.SuggestionsMinimumDistance = typingError
		return fmt.Errorf("%w%s", cobra.NoArgs(cmd, args), didYouMean(cmd.SuggestionsFor(args[0])))
	}
	return cobra.NoArgs(cmd, args)
}

// helpOnly is what a command does that is nothing without a subcommand.
func helpOnly(cmd *cobra.Command, _ []string) error { return cmd.Help() }
