package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/etcdflags"
)

// environment is the prefix of the environment variables for flags.
const environment = "SQLSTORE_"

// setByOthers matches variables with the prefix that nobody means as a setting of a server: the version that an image
// states, the image that compose files name, what sqlstore's tests and benchmarks run and their own, which servers
// inherit, those of shell completion, and the addresses that Kubernetes and Docker give to all containers when a
// service's name begins with sqlstore.
var setByOthers = regexp.MustCompile(`^SQLSTORE_(` +
	`(VERSION|IMAGE|BIN|ACTIVE_HELP|(TEST|BENCH|SIMULATION|COMPLETION|ENV)_\w+|(\w+_)?SERVICE_(HOST|PORT(_\w+)?))=|` +
	`(\w+_)?PORT=(tcp|udp|sctp)://|(\w+_)?PORT_\d+_(TCP|UDP|SCTP)(_\w+)?=)`)

// variable returns the environment variable for a flag.
func variable(flag string) string {
	return environment + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// refuseUnknown refuses variables in environ that have the prefix but are no setting of serve: a misspelt one would
// start another store than the one that its author means. It accepts the variables of the other commands. The errors
// omit values, because one may be a secret. Errors: [errSettings].
func refuseUnknown(serve *pflag.FlagSet, environ []string) error {
	known := map[string]bool{}
	add := func(flags *pflag.FlagSet) {
		flags.VisitAll(func(f *pflag.Flag) { known[variable(f.Name)] = !slices.Contains(notSettings, f.Name) })
	}
	add(serve)
	eachCommand(command(), func(c *cobra.Command) {
		if c.Name() != benchName { // size, keys and the like, which somebody may mean as a setting
			add(c.Flags())
		}
	})
	var errs []error
	for _, assignment := range environ {
		name, _, _ := strings.Cut(assignment, "=")
		if !strings.HasPrefix(name, environment) || known[name] || setByOthers.MatchString(assignment) {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, environment), "_", "-"))
		similar := similarFlags(serve, flag)
		for i := range similar {
			similar[i] = variable(similar[i])
		}
		errs = append(errs, fmt.Errorf("%w: unknown environment variable %s%s", errSettings, name, didYouMean(similar)))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// otherCommandLine is a program whose command line another command than serve takes.
type otherCommandLine struct {
	name, prefix string
	has          func(flag string) bool
}

var otherCommandLines = []otherCommandLine{
	{etcdName, "ETCD_", etcdflags.Has},
	{kineName, kinePrefix, isKineFlag},
}

// variables returns the variables in environ that set flags of the program. Only its own command line reads them.
func (o otherCommandLine) variables(environ []string) (names []string) {
	for _, assignment := range environ {
		name, value, _ := strings.Cut(assignment, "=")
		rest, is := strings.CutPrefix(name, o.prefix)
		if is && value != "" && o.has(strings.ToLower(strings.ReplaceAll(rest, "_", "-"))) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// eachCommand calls f for c and all commands below it.
func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}
