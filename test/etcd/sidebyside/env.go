package sidebyside

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// envInt returns a number from the environment.
func envInt(tb testing.TB, name string, unset int) int {
	tb.Helper()
	s := os.Getenv(name)
	if s == "" {
		return unset
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return n
}

// envDuration returns a duration from the environment.
func envDuration(tb testing.TB, name string, unset time.Duration) time.Duration {
	tb.Helper()
	s := os.Getenv(name)
	if s == "" {
		return unset
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return d
}
