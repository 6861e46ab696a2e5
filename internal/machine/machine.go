// Package machine examines what the operating system gives a server: its clock and its limits.
package machine

import (
	"fmt"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// fewFiles is too few open files: each client connection and each database connection is one.
const fewFiles = 4096

// Examine examines the machine.
func Examine() []backend.Finding { return []backend.Finding{clock(), openFiles(), memory()} }

// memory says how much of it the process may use.
func memory() backend.Finding {
	const least = 256 << 20
	f := backend.Finding{Subject: "memory"}
	limit, err := memlimit.FromSystem()
	source := "the machine's"
	if group, errGroup := memlimit.FromCgroup(); errGroup == nil && group > 0 && (group < limit || limit == 0) {
		limit, err, source = group, nil, "the cgroup's limit"
	}
	switch {
	case err != nil || limit == 0:
		f.Severity, f.Detail = backend.Warning, fmt.Sprint("unknown: ", err)
		f.Advice = "set " + setting.Name("CacheBytes") + ", whose default depends on it"
		return f
	case limit < least:
		f.Severity = backend.Warning
		f.Advice = fmt.Sprintf("give the server at least %d MiB, more for large stores", least>>20)
	}
	f.Detail = fmt.Sprintf("%d MiB, %s", limit>>20, source)
	return f
}

// openFiles says how many files the process may open: Go raises the soft limit to the hard one.
func openFiles() backend.Finding {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return backend.Finding{
			Severity: backend.Warning, Subject: "open files", Detail: fmt.Sprint("the limit is unknown: ", err),
			Advice: "see that it is enough for all connections",
		}
	}
	return filesFinding(limit.Max)
}

func filesFinding(limit uint64) backend.Finding {
	f := backend.Finding{Subject: "open files", Detail: fmt.Sprintf("at most %d", limit)}
	if limit < fewFiles {
		f.Severity = backend.Warning
		f.Advice = fmt.Sprintf("each connection needs one: allow %d or more, with ulimit -Hn or LimitNOFILE=", fewFiles)
	}
	return f
}
