package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// containerPostgres starts a server in a container, as the tests do.
func containerPostgres() (p *postgres, err error) {
	r := &run{}
	defer func() {
		if err != nil {
			_ = r.end()
		}
	}()
	defer func() {
		if e := recover(); e != nil {
			if e != any(r) {
				panic(e)
			}
			err = r.failed
		}
	}()
	s := pgserver.Start(r, pgserver.Options{})
	p = &postgres{dsn: s.DSN(), from: "a container"}
	p.remove = func() error {
		if p.tree != 0 {
			_ = p.resume()
		}
		return r.end()
	}
	return p, nil
}

// run replaces a test: it implements what package pgserver needs of one.
type run struct {
	testing.TB // nil: only the methods below are called
	cleanups   []func()
	failed     error
}

// Helper implements testing.TB.
func (r *run) Helper() {}

// Logf implements testing.TB.
func (r *run) Logf(string, ...any) {}

// Failed implements testing.TB.
func (r *run) Failed() bool { return r.failed != nil }

// Cleanup implements testing.TB.
func (r *run) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// Errorf implements testing.TB.
func (r *run) Errorf(format string, args ...any) {
	r.failed = errors.Join(r.failed, fmt.Errorf(format, args...))
}

// Fatalf implements testing.TB: it panics with r.
func (r *run) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// end cleans up.
func (r *run) end() error {
	r.failed = nil
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	r.cleanups = nil
	return r.failed
}
