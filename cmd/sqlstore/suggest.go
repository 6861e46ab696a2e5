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

// flagError rewords an error of parsing flags for people who do not know Go, and adds a suggestion.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return valueError(err)
	}
	name := unknown.GetSpecifiedName()
	similar := similarFlags(cmd.Flags(), name)
	if serves := cmd.Name() == "serve" || !cmd.HasParent(); serves && len(similar) == 0 {
		for _, other := range otherCommandLines {
			if other.has(name) {
				return fmt.Errorf("%w; it is %s's: 'sqlstore %[2]s' takes %[2]s's command line", err, other.name)
			}
		}
	}
	for i := range similar {
		similar[i] = "--" + similar[i]
	}
	return fmt.Errorf("%w%s", err, didYouMean(similar))
}

// valueError says in err, if that is about a flag's value, which values the flag takes.
func valueError(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	f, cause := invalid.GetFlag(), errors.Unwrap(invalid)
	switch kind := f.Value.Type(); {
	case kind == "bool":
		cause = errors.New("write true or false")
	case kind == "duration":
		cause = errDuration
	case strings.HasPrefix(kind, "uint"):
		cause = errors.New("write a whole number, 0 or more")
	case strings.HasPrefix(kind, "int"):
		cause = errors.New("write a whole number")
	}
	value := invalid.GetValue()
	if strings.Contains(value, "://") { // of another flag, perhaps with a password
		return fmt.Errorf("--%s: %w", f.Name, cause)
	}
	return fmt.Errorf("--%s %q: %w", f.Name, value, cause)
}
