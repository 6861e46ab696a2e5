// Package env reads the settings of test suites from environment variables. Each function returns the value of the
// variable, or unset if the variable is unset or empty, and fails the test if it cannot parse the value.
package env

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// Count reads a positive integer: a test that is asked for none would check nothing.
func Count(tb testing.TB, name string, unset int) int {
	tb.Helper()
	return read(tb, name, unset, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err == nil && n < 1 {
			err = fmt.Errorf("%d is not positive", n)
		}
		return n, err
	})
}

// Seed reads a decimal integer without a sign.
func Seed(tb testing.TB, name string, unset uint64) uint64 {
	tb.Helper()
	return read(tb, name, unset, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
}

// Minutes reads a number of minutes, which may have a fraction.
func Minutes(tb testing.TB, name string, unset time.Duration) time.Duration {
	tb.Helper()
	return read(tb, name, unset, func(s string) (time.Duration, error) {
		n, err := strconv.ParseFloat(s, 64)
		return time.Duration(n * float64(time.Minute)), err
	})
}

// Duration reads a duration in the format of [time.ParseDuration].
func Duration(tb testing.TB, name string, unset time.Duration) time.Duration {
	tb.Helper()
	return read(tb, name, unset, time.ParseDuration)
}

func read[T any](tb testing.TB, name string, unset T, parse func(string) (T, error)) T {
	tb.Helper()
	s := os.Getenv(name)
	if s == "" {
		return unset
	}
	v, err := parse(s)
	if err != nil {
		tb.Fatalf("environment variable %s: %v", name, err)
	}
	return v
}
