package etcdtests

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// The outcomes of a test.
const (
	passed   = "pass"
	failed   = "fail"
	skipped  = "skip"
	started  = "run"   // it has not ended, or another outcome would follow
	excluded = "never" // it is not run: it would take long only to fail
)

// exclusion says that tests do not pass, and why.
type exclusion struct {
	outcome string
	pattern string // of path.Match, for the test's name with its package: common/TestX/subtest
	reason  string
}

// readExclusions reads the exclusions of one of etcd's packages: lines of an outcome, a pattern and the reason. A line
// that begins with # is a comment.
func readExclusions(t *testing.T, pkg string) (list []exclusion) {
	t.Helper()
	b, err := os.ReadFile("exclusions.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		head, reason, _ := strings.Cut(line, ": ")
		fields := strings.Fields(head)
		if len(fields) != 2 || reason == "" || !slices.Contains([]string{failed, skipped, excluded}, fields[0]) {
			t.Fatalf("exclusions.txt:%d: want fail, skip or never, then PATTERN: REASON", i+1)
		}
		e := exclusion{outcome: fields[0], pattern: fields[1], reason: reason}
		if _, err := path.Match(e.pattern, ""); err != nil {
			t.Fatalf("exclusions.txt:%d: %v", i+1, err)
		}
		if strings.HasPrefix(e.pattern, pkg+"/") {
			list = append(list, e)
		}
	}
	return list
}

// find returns the first exclusion of a test.
func find(list []exclusion, name string) (exclusion, bool) {
	i := slices.IndexFunc(list, func(e exclusion) bool {
		ok, _ := path.Match(e.pattern, name) // the pattern is valid
		return ok
	})
	if i < 0 {
		return exclusion{}, false
	}
	return list[i], true
}

// of returns the exclusions of a test and its subtests.
func of(list []exclusion, test string) (own []exclusion) {
	for _, e := range list {
		if e.isOf(test) {
			own = append(own, e)
		}
	}
	return own
}

// isOf reports whether the exclusion is of a test, given with its package, or of one of its subtests.
func (e exclusion) isOf(test string) bool {
	ok, _ := path.Match(path.Join(strings.Split(e.pattern, "/")[:2]...), test)
	return ok
}
