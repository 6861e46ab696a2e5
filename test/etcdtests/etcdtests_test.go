package etcdtests

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// limit bounds a test: those that wait for a line of the log have no limit themselves.
const limit = 10 * time.Minute

func TestCommon(t *testing.T) { run(t, "common") }

func TestE2E(t *testing.T) { run(t, "e2e") }

// run runs one of etcd's packages and compares the outcomes with the exclusions.
func run(t *testing.T, pkg string) {
	p := build(t, pkg)
	tests, all := p.list(t), readExclusions(t, pkg)
	for _, e := range all {
		if !slices.ContainsFunc(tests, func(name string) bool { return e.isOf(path.Join(pkg, name)) }) {
			t.Errorf("exclusions.txt: %s: there is no such test", e.pattern)
		}
	}
	number, parts := part(t)
	for i, name := range tests {
		if i%parts != number%parts {
			continue
		}
		test := path.Join(pkg, name)
		if e, ok := find(all, test); ok && e.outcome == excluded {
			t.Logf("%s is not run: %s", test, e.reason)
			continue
		}
		t.Run(name, func(t *testing.T) {
			exclusions := of(all, test)
			o := p.attempt(t, name)
			differences := o.differences(exclusions)
			if len(differences) > 0 {
				// Etcd's tests give whole scenarios a few seconds; on a slow machine that may not suffice once.
				t.Logf("another attempt, after: %s", strings.Join(differences, "; "))
				o = p.attempt(t, name)
				differences = o.differences(exclusions)
			}
			for _, d := range differences {
				t.Error(d)
			}
			if t.Failed() {
				t.Log(o.output.String())
			}
		})
	}
}

// part returns which of how many parts of the tests to run.
func part(t *testing.T) (number, parts int) {
	t.Helper()
	s := env.Part.Text()
	if s == "" {
		return 0, 1
	}
	if _, err := fmt.Sscanf(s, "%d/%d", &number, &parts); err != nil || number < 0 || parts < 1 {
		t.Fatalf("%s is %q, want a number, a slash and how many parts there are", env.Part, s)
	}
	return number, parts
}
