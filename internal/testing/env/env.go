// Package env has the environment variables that change what tests do: all of them, which a test sees to.
//
// Each function returns what its caller passes as unset if the variable is unset or empty, and fails the test if it
// cannot parse the value.
package env

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// Variable is the name of an environment variable.
type Variable string

const (
	// Seed repeats the random choices of a run: a number, which tests log. make nightly sets a random one.
	Seed Variable = "SQLSTORE_TEST_SEED"
	// Length is how much of a random or long test runs: a number of minutes, of kills, of objects, as the package's
	// documentation says. Short by default; make soak sets it.
	Length Variable = "SQLSTORE_TEST_LENGTH"
	// Whole is set to run what the suite otherwise leaves out because it takes long.
	Whole Variable = "SQLSTORE_TEST_WHOLE"
	// Part selects a part of a suite in a way that go test's -run cannot.
	Part Variable = "SQLSTORE_TEST_PART"
	// Keep is a directory for what a run is to leave behind: a report, or a disk on which something failed.
	Keep Variable = "SQLSTORE_TEST_KEEP"

	// Target is what suites test: "sqlstore", also if unset, or "etcd", which tests the tests.
	Target Variable = "SQLSTORE_TEST_TARGET"
	// Datastore is the database of the servers: see package datastore of the suites.
	Datastore Variable = "SQLSTORE_TEST_DATASTORE"
	// Replicas is the number of servers over one Postgres database: 1 if unset.
	Replicas Variable = "SQLSTORE_TEST_REPLICAS"
	// PgBouncer is 1 for a PgBouncer in transaction mode between the servers and Postgres.
	PgBouncer Variable = "SQLSTORE_TEST_PGBOUNCER"
	// Image is the container image of sqlstore to test. If unset, it is built from the sources.
	Image Variable = "SQLSTORE_TEST_IMAGE"

	// Postgres is the DSN of a server where tests may create databases. If unset, they start one: see package pgserver.
	Postgres Variable = "SQLSTORE_TEST_POSTGRES"
	// PostgresVersion is the major version of the Postgres that tests start.
	PostgresVersion Variable = "SQLSTORE_TEST_POSTGRES_VERSION"
	// PostgresImage is the container image of the Postgres that tests start.
	PostgresImage Variable = "SQLSTORE_TEST_POSTGRES_IMAGE"

	// Child is set by tests alone, for processes of their own binary: see [AsChild].
	Child Variable = "SQLSTORE_TEST_CHILD"
)

// Text returns the value, "" if it is unset.
func (v Variable) Text() string { return os.Getenv(string(v)) }

// With returns the variable with a value, as an element of [os/exec.Cmd]'s Env.
func (v Variable) With(value any) string { return fmt.Sprintf("%s=%v", v, value) }

// Count reads a positive integer: a test that is asked for none would check nothing.
func (v Variable) Count(tb testing.TB, unset int) int {
	tb.Helper()
	return read(tb, v, unset, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err == nil && n < 1 {
			err = fmt.Errorf("%d is not positive", n)
		}
		return n, err
	})
}

// Uint reads a decimal integer without a sign.
func (v Variable) Uint(tb testing.TB, unset uint64) uint64 {
	tb.Helper()
	return read(tb, v, unset, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
}

// Minutes reads a number of minutes, which may have a fraction.
func (v Variable) Minutes(tb testing.TB, unset time.Duration) time.Duration {
	tb.Helper()
	return v.times(tb, time.Minute, unset)
}

// Seconds reads a number of seconds, which may have a fraction.
func (v Variable) Seconds(tb testing.TB, unset time.Duration) time.Duration {
	tb.Helper()
	return v.times(tb, time.Second, unset)
}

func (v Variable) times(tb testing.TB, unit, unset time.Duration) time.Duration {
	tb.Helper()
	return read(tb, v, unset, func(s string) (time.Duration, error) {
		n, err := strconv.ParseFloat(s, 64)
		return time.Duration(n * float64(unit)), err
	})
}

func read[T any](tb testing.TB, v Variable, unset T, parse func(string) (T, error)) T {
	tb.Helper()
	s := v.Text()
	if s == "" {
		return unset
	}
	value, err := parse(s)
	if err != nil {
		tb.Fatalf("environment variable %s: %v", v, err)
	}
	return value
}
