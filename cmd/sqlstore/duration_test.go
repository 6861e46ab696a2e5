package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Durations can be in days and weeks, for every flag that takes one.
func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1d": day, "2w": 14 * day, "1d12h": 36 * time.Hour, "1.5h": 90 * time.Minute, "0": 0, "-1s": -time.Second,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "1 day", "d", "1000000w"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	eachCommand(command(), func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			if err := f.Value.Set("1d"); err != nil || f.Value.String() != "24h0m0s" {
				t.Errorf("%s --%s: %v, %v", c.Name(), f.Name, f.Value, err)
			}
		})
	})
}
