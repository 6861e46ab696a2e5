//go:build !linux

package sqlite

import (
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

// examineFileSystem says how much of the directory's file system is free.
func examineFileSystem(dir string) backend.Finding {
	free, err := freeBytes(dir)
	if err != nil {
		return backend.Finding{
			Severity: backend.Warning, Subject: "file system", Detail: err.Error(), Advice: "see how much is free",
		}
	}
	return backend.Finding{Subject: "file system", Detail: fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30))}
}
