package etcdflags

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

var (
	// ErrUsage is returned for a command line that does not parse. Its message is already written.
	ErrUsage = errors.New("bad command line")
	// ErrHelp is returned if the command line asks for help, which is already written.
	ErrHelp = flag.ErrHelp
	// ErrSettings is returned for invalid settings.
	ErrSettings = errors.New("bad settings")
	// ErrRefused is returned for settings that would break a promise of etcd's.
	ErrRefused = errors.New("refused")
)

const (
	prefix    = "ETCD_"     // of the variables for etcd's flags
	ownPrefix = "SQLSTORE_" // of the variables for sqlstore's own flags
)

// Note is a line for the log, which exists only once the settings are known.
type Note struct {
	Level   slog.Level
	Message string
	Args    []any
}

// Options are the settings from all sources.
type Options struct {
	// Notes are what the log should say about the settings.
	Notes []Note

	flags *flag.FlagSet
	uses  map[string]Use
	own   map[string]Own
	given map[string]bool // by any source
	file  string
}

// Own is a flag that only sqlstore has.
type Own struct {
	Name, Usage string
	Value       flag.Value
	// IgnoresEmpty says that an empty variable, or a key of the file without a value, leaves it unset. Otherwise both
	// are errors.
	IgnoresEmpty bool
}

// Output is where [Parse] writes help and errors of the command line.
type Output struct{ Out, Err io.Writer }

// Parse reads the command line without its command, the variables, and the file that either names. Check validates the
// result. Errors: [ErrUsage], [ErrHelp], [ErrSettings].
func Parse(args, environ []string, own []Own, w Output) (*Options, error) {
	o := newOptions(own)
	o.flags.SetOutput(w.Err)
	o.flags.Usage = func() { fmt.Fprint(w.Err, usage) }
	switch err := o.flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(w.Out, help(own))
		return nil, ErrHelp
	case err != nil:
		return nil, ErrUsage
	}
	o.flags.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
	if o.flags.NArg() > 0 {
		return o, stray(o.flags.Arg(0))
	}
	if o.Text("version") == "true" {
		return o, nil
	}
	variables := map[string]string{}
	for _, assignment := range environ {
		name, value, _ := strings.Cut(assignment, "=")
		variables[name] = value
	}
	if err := o.ownVariables(variables); err != nil {
		return o, err
	}
	o.file = o.Text("config-file")
	if o.file == "" {
		o.file = variables[Variable("config-file")]
	}
	if o.file != "" {
		return o, o.readFile()
	}
	return o, o.variables(variables)
}

// stray returns the error for an argument that belongs to no flag. It does not show one that may hold a password.
func stray(argument string) error {
	switch {
	case argument == "gateway" || argument == "grpc-proxy":
		return fmt.Errorf("%w: %s is not available: clients connect to the servers, or through any proxy for TCP",
			ErrSettings, argument)
	case strings.ContainsAny(argument, ":@="):
		return fmt.Errorf("%w: found an argument without its flag; name a database with --datastore", ErrSettings)
	}
	return fmt.Errorf("%w: %q is not a valid flag", ErrSettings, argument)
}

func newOptions(own []Own) *Options {
	o := &Options{
		flags: flag.NewFlagSet("etcd", flag.ContinueOnError),
		uses:  map[string]Use{}, own: map[string]Own{}, given: map[string]bool{},
	}
	for _, g := range table() {
		for _, d := range g.flags {
			o.flags.Var(d.value, d.name, d.usage)
			o.uses[d.name] = d.use
		}
	}
	for _, f := range own {
		o.flags.Var(f.Value, f.Name, f.Usage)
		o.own[f.Name] = f
	}
	return o
}

// Has reports whether etcd has a flag.
func Has(name string) bool {
	_, ok := newOptions(nil).uses[name]
	return ok
}

// Variable returns the environment variable for one of etcd's flags.
func Variable(name string) string { return variable(prefix, name) }

func variable(prefix, name string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// ownVariables sets flags of sqlstore's own that the command line does not.
func (o *Options) ownVariables(variables map[string]string) error {
	for name, f := range o.own {
		key := variable(ownPrefix, name)
		value, ok := variables[key]
		if !ok || o.given[name] || value == "" && f.IgnoresEmpty {
			continue
		}
		if err := o.flags.Set(name, value); err != nil {
			return fmt.Errorf("%w: environment variable %s: %w", ErrSettings, key, err)
		}
		o.given[name] = true
	}
	return nil
}

// variables sets etcd's flags from the environment. Like etcd, it refuses a variable beside the flag.
func (o *Options) variables(variables map[string]string) error {
	known := map[string]bool{}
	var used, shadowed []string
	for _, name := range slices.Sorted(maps.Keys(o.uses)) {
		key := Variable(name)
		known[key] = true
		value, ok := variables[key]
		switch {
		case ok && o.given[name]:
			shadowed = append(shadowed, key)
		case value != "":
			if err := o.flags.Set(name, value); err != nil {
				return fmt.Errorf("%w: invalid value %q for %s: %w", ErrSettings, value, key, err)
			}
			o.given[name] = true
			used = append(used, key)
		}
	}
	if len(shadowed) > 0 {
		return fmt.Errorf("%w: conflicting environment variable is shadowed by corresponding command-line flag "+
			"(either unset environment variable or disable flag): %s", ErrSettings, strings.Join(shadowed, ", "))
	}
	if len(used) > 0 {
		o.note(slog.LevelInfo, "recognized and used environment variables", "environment-variables", used)
	}
	o.noteUnknown(variables, known)
	return nil
}

// noteUnknown names variables that set nothing. Their values may be secrets meant for something else.
func (o *Options) noteUnknown(variables map[string]string, known map[string]bool) {
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		if strings.HasPrefix(key, prefix) && !known[key] {
			o.note(slog.LevelWarn, "unrecognized environment variable", "environment-variable", key)
		}
	}
}

func (o *Options) note(level slog.Level, message string, args ...any) {
	o.Notes = append(o.Notes, Note{level, message, args})
}

// Text returns the value of a flag.
func (o *Options) Text(name string) string { return o.flags.Lookup(name).Value.String() }

// Given reports whether a flag, a variable or the file sets one of etcd's flags.
func (o *Options) Given(name string) bool { return o.given[name] }

// Default reports whether a flag has its default value.
func (o *Options) Default(name string) bool {
	f := o.flags.Lookup(name)
	return f.Value.String() == f.DefValue
}

// Passed returns the values of the flags that have a meaning for the server.
func (o *Options) Passed() map[string]string {
	values := map[string]string{}
	for name, use := range o.uses {
		if use == Passed {
			values[name] = o.Text(name)
		}
	}
	return values
}

// get returns the value of a flag of package flag's own types.
func get[T any](o *Options, name string) T {
	return o.flags.Lookup(name).Value.(flag.Getter).Get().(T) //nolint:forcetypeassert // the table has the types
}

// List returns the values of a flag that takes several.
func (o *Options) List(name string) []string {
	text := o.Text(name)
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
