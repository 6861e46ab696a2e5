//go:build simulation

package world

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
)

// TestSeed runs the world of one seed and writes a [Result]. Package simulation calls it, in a process for each seed.
func TestSeed(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv(SeedVariable), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	runtime.MemProfileRate = 0 // it draws random numbers
	var log bytes.Buffer       // a file would need system calls, which change the order of goroutines
	w := New(seed, slog.New(slog.NewTextHandler(&log, nil)))
	defer func() {
		if path := os.Getenv(LogVariable); path != "" {
			if err := os.WriteFile(path, log.Bytes(), 0o644); err != nil {
				t.Error(err)
			}
		}
	}()
	synctest.Test(t, func(*testing.T) {
		runtimeSeed = seed
		w.Run()
	})
	b, err := json.Marshal(w.Result())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv(ResultVariable), b, 0o644); err != nil {
		t.Fatal(err)
	}
}
