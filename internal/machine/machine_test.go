package machine

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend"
)

func TestExamine(t *testing.T) {
	var subjects []string
	for _, f := range Examine() {
		subjects = append(subjects, f.Subject)
		if f.Detail == "" || (f.Severity != backend.OK) != (f.Advice != "") {
			t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(subjects, ", "); got != "clock, open files, memory" {
		t.Errorf("examined %s", got)
	}
}

// A hard limit below what a server needs is a warning.
func TestFewFiles(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit uint64
		want  backend.Severity
	}{{fewFiles, backend.OK}, {fewFiles - 1, backend.Warning}} {
		if f := filesFinding(c.limit); f.Severity != c.want {
			t.Errorf("%d files: %+v", c.limit, f)
		}
	}
	if f := openFiles(); f != filesFinding(before.Max) {
		t.Errorf("%+v of a limit of %d", f, before.Max)
	}
}
