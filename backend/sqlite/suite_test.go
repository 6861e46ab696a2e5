package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/backendtest"
)

func TestSuite(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		return openTest(t, Config{Path: filepath.Join(t.TempDir(), "db")})
	}, backendtest.Hooks{Reopen: func(t *testing.T, b backend.Backend) backend.Backend {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		return openTest(t, Config{Path: b.(*Backend).path})
	}})
}

// TestSuiteTemporary is the same on a database without syncs that is purged in windows of two rows.
func TestSuiteTemporary(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		b := openTest(t, Config{Temporary: true, Readers: 2})
		b.windowRows = 2
		return b
	}, backendtest.Hooks{})
}
