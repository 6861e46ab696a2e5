package main

import (
	"errors"

	"github.com/spf13/pflag"
)

// required is the value of a flag that has a default and cannot be empty. An empty value comes from a variable that is
// missing in a unit, a chart or a template; the default would then be a surprise.
type required struct{ to *string }

var errEmpty = errors.New("must not be empty: give a value, or leave the setting out to get the default")

// requiredVar defines such a flag.
func requiredVar(f *pflag.FlagSet, to *string, name, byDefault, usage string) {
	*to = byDefault
	f.Var(required{to}, name, usage)
}

// Set implements [pflag.Value].
func (r required) Set(s string) error {
	if s == "" {
		return errEmpty
	}
	*r.to = s
	return nil
}

func (r required) String() string {
	if r.to == nil {
		return ""
	}
	return *r.to
}

// Type implements [pflag.Value].
func (required) Type() string { return "string" }

// ignoresEmpty reports whether an empty variable, or a key of the file without a value, leaves the flag unset.
func ignoresEmpty(f *pflag.Flag) bool {
	_, is := f.Value.(required)
	return !is
}

// optional is the value of a flag, such as a number, that an empty text leaves unset instead of being malformed.
type optional struct {
	pflag.Value

	set bool
}

// Set implements [pflag.Value].
func (o *optional) Set(s string) error {
	if s == "" {
		return nil
	}
	o.set = true
	return o.Value.Set(s)
}

// allowEmpty makes all flags optional whose types have no empty text.
func allowEmpty(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "bool", "int", "uint", "uint32", "duration", "bytes":
			f.Value = &optional{Value: f.Value}
		}
	})
}

// isEmpty reports whether a flag that was set has an empty value.
func isEmpty(f *pflag.Flag) bool {
	if o, is := f.Value.(*optional); is {
		return !o.set
	}
	value := f.Value.String()
	return value == "" || value == "[]"
}
