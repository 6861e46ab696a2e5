package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// typingError is the maximum edit distance of a suggestion.
const typingError = 2

// didYouMean ends the error for an unknown name. It is empty if no known name is similar.
func didYouMean(similar []string) string {
	if len(similar) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(similar, " or ") + "?"
}

// similarFlags returns the flags whose names resemble name, by the rule that cobra uses for commands.
func similarFlags(flags *pflag.FlagSet, name string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: typingError}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names.SuggestionsFor(name)
}

// flagError adds a suggestion to an error of parsing flags.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	similar := similarFlags(cmd.Flags(), unknown.GetSpecifiedName())
	for i := range similar {
		similar[i] = "--" + similar[i]
	}
	return fmt.Errorf("%w%s", err, didYouMean(similar))
}
