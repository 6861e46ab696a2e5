package etcdtests

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// outcomes are those of a test and its subtests, by name with the package first, and all that they print.
type outcomes struct {
	byName map[string]string
	output strings.Builder
}

// attempt runs a test in a process of its own: one that fails may leave goroutines, because of which the tests that
// follow it would skip themselves.
func (p program) attempt(t *testing.T, name string) *outcomes {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "test2json", p.path, "-test.v=test2json",
		"-test.timeout="+limit.String(), "-test.run=^"+name+"$")
	cmd.Dir = p.dir
	cmd.Stderr = os.Stderr
	if env.Whole.Text() == "" {
		cmd.Env = append(os.Environ(), "E2E_TEST_MINIMAL=1")
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &outcomes{byName: map[string]string{}}
	for events := json.NewDecoder(out); ; {
		var e struct{ Action, Test, Output string }
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read the outcomes: %v", err)
		}
		if e.Action == "output" {
			o.output.WriteString(e.Output)
		} else if e.Test != "" && slices.Contains([]string{started, passed, failed, skipped}, e.Action) {
			o.byName[path.Join(p.pkg, e.Test)] = e.Action
		}
	}
	// A failure is among the outcomes.
	if err := cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return o
}

// own returns the outcome of a test itself, "" if it fails because a subtest does.
func (o *outcomes) own(name string) string {
	outcome := o.byName[name]
	if outcome == failed {
		for other, of := range o.byName {
			if of == failed && strings.HasPrefix(other, name+"/") {
				return ""
			}
		}
	}
	return outcome
}

// differences says what is neither a pass nor as the exclusions of the test say.
func (o *outcomes) differences(exclusions []exclusion) (list []string) {
	used := map[exclusion]bool{}
	for _, name := range slices.Sorted(maps.Keys(o.byName)) {
		e, ok := find(exclusions, name)
		switch outcome := o.own(name); {
		case outcome == "" || outcome == passed && !ok:
		case ok && outcome == e.outcome:
			used[e] = true
		case outcome == passed && e.outcome == skipped: // a pattern for tests of which some skip themselves
		case ok:
			list = append(list, name+": "+outcome+", but exclusions.txt says "+e.outcome+": "+e.reason)
			used[e] = true
		default:
			list = append(list, name+": "+outcome+", which is not in exclusions.txt")
		}
	}
	for _, e := range exclusions {
		if !used[e] {
			list = append(list, e.pattern+" is in exclusions.txt, but no test has that outcome")
		}
	}
	if len(o.byName) == 0 {
		list = append(list, "no test has run")
	}
	return list
}
