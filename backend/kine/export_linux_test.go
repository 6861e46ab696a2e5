package kine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/smalldisk"
)

// An export that fills the disk fails with one error, which says what to do, and leaves nothing.
func TestExportToFullDisk(t *testing.T) {
	smalldisk.Run(t, "1m", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "state.db")
		large := put(2, "/large")
		large.Value = make([]byte, 4<<20)
		err := Export(t.Context(), Prefix+"sqlite://"+path, &Store{Revision: 5, Rows: rowsOf(large)})
		if err == nil || !strings.HasSuffix(err.Error(), "database or disk is full: free space on the disk of "+path+
			", and run the same command again") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	})
}
