package main

import (
	"errors"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"
)

// duration is the value of a flag: a duration as Go writes it, such as 1h30m, or one in days or weeks, such as 7d.
type duration struct{ to *time.Duration }

var errDuration = errors.New("write a number with a unit, such as 500ms, 30s, 5m, 1h30m, 7d or 2w")

// durationVar defines a flag for a duration.
func durationVar(f *pflag.FlagSet, to *time.Duration, name string, byDefault time.Duration, usage string) {
	*to = byDefault
	f.Var(duration{to}, name, usage)
}

func parseDuration(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, errDuration
	}
	return time.Duration(d), nil
}

// Set implements [pflag.Value].
func (d duration) Set(s string) (err error) {
	parsed, err := parseDuration(s)
	if err == nil {
		*d.to = parsed
	}
	return err
}

// String implements [pflag.Value].
func (d duration) String() string {
	if d.to == nil { // pflag calls this on a zero value
		return "0s"
	}
	return d.to.String()
}

// Type implements [pflag.Value].
func (duration) Type() string { return "duration" }
