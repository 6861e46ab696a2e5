package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// typingError is how many letters of a name may be wrong, missing or too many.
const typingError = 2

// didYouMean is the end of a message about a name that is unknown, empty where none of the known is like it.
func didYouMean(similar []string) string {
	if len(similar) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(similar, " or ") + "?"
}

// similarFlags are the flags whose names are like name, as cobra finds commands that are like one.
func similarFlags(flags *pflag.FlagSet, name string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: typingError}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names.SuggestionsFor(name)
}

// flagError is an error of parsing flags, with what was probably meant.
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
