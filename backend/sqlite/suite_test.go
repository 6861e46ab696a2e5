package sqlite

import (
	"errors"
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
	}, Execute: execute, View: view})
}

// execute runs a statement on another connection than those of b.
func execute(t *testing.T, b backend.Backend, statement string) {
	t.Helper()
	c, err := connect(b.(*Backend).path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.exec(statement), c.close()); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func view(t *testing.T, b backend.Backend) backend.View {
	t.Helper()
	v, err := OpenView(t.Context(), b.(*Backend).path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSuiteTemporary runs what purges and what opens and closes on a database without syncs that is purged in windows
// of two rows.
func TestSuiteTemporary(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		b := openTest(t, Config{Temporary: true, Readers: 2})
		b.windowRows = 2
		return b
	}, backendtest.Hooks{Execute: execute, View: view, Only: []string{
		"Fresh", "PurgeKeepsWhatIsSeen", "PurgeInSteps", "PurgeUntil", "SpaceIsReclaimed", "CorruptPurge",
		"CorruptPurgeOfMany", "ReadsDuringWrites", "Close", "Random", "Inspect",
	}})
}
