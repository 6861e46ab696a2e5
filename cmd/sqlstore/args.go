package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArgs refuses arguments. It does not show one that may hold a secret, such as a DSN without its flag.
func noArgs(cmd *cobra.Command, args []string) error {
	for _, a := range args {
		if strings.ContainsAny(a, ":@=") {
			return fmt.Errorf("%w: found an argument without its flag; name a database with --datastore", errSettings)
		}
	}
	if len(args) > 0 && cmd.HasSubCommands() {
		cmd.SuggestionsMinimumDistance = typingError
		return fmt.Errorf("%w%s", cobra.NoArgs(cmd, args), didYouMean(cmd.SuggestionsFor(args[0])))
	}
	return cobra.NoArgs(cmd, args)
}

// helpOnly is the action of a command that needs a subcommand.
func helpOnly(cmd *cobra.Command, _ []string) error { return cmd.Help() }
