package sqlite

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// levels records log lines, except those for debugging.
type levels chan slog.Level

func (levels) Enabled(_ context.Context, l slog.Level) bool    { return l >= slog.LevelInfo }
func (l levels) Handle(_ context.Context, r slog.Record) error { l <- r.Level; return nil }
func (l levels) WithAttrs([]slog.Attr) slog.Handler            { return l }
func (l levels) WithGroup(string) slog.Handler                 { return l }

// A reader that does not end is reported once, and does not block the writer; the log shrinks after it ends.
func TestReaderThatStays(t *testing.T) {
	t.Parallel()
	log := make(levels, 10)
	b := openTest(t, Config{Path: filepath.Join(t.TempDir(), "db"), UnsafeNoFsync: true, Logger: slog.New(log)})
	p := b.checkpoints
	p.stop()
	p.limit = 64 << 10
	reader, err := connect(b.path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.close() }()
	size := func(stalled bool) int64 {
		t.Helper()
		s, err := b.Size(t.Context())
		if err != nil || (s.LogStalled > 0) != stalled {
			t.Errorf("%+v, %v", s, err)
		}
		if wal, err := os.Stat(b.path + "-wal"); err != nil || wal.Size() != s.WAL {
			t.Errorf("%+v, but the log has %d bytes, %v", s, wal.Size(), err)
		}
		return s.Log
	}
	value := bytes.Repeat([]byte{1}, 100<<10)
	fill := func() {
		t.Helper()
		for range 3 {
			if err := write(b, "k", value); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	if err := reader.exec("BEGIN; SELECT count(*) FROM clock"); err != nil {
		t.Fatal(err)
	}
	fill()
	p.once(t.Context(), c, alone)
	size(false)
	aged := func() {
		p.stall.mu.Lock()
		defer p.stall.mu.Unlock()
		p.stall.since = p.stall.since.Add(-2 * stallTimeout)
	}
	aged()
	for range 3 {
		fill()
		if !p.once(t.Context(), c, alone) {
			t.Error("the WAL is reported as checkpointed")
		}
	}
	if log := size(true); log < 500<<10 {
		t.Errorf("a log of %d bytes counts", log)
	}
	if err := reader.close(); err != nil {
		t.Fatal(err)
	}
	p.once(t.Context(), c, alone)
	if log := size(false); log != 0 {
		t.Errorf("a log of %d bytes counts after the reader has ended", log)
	}
	for _, want := range []slog.Level{slog.LevelWarn, slog.LevelInfo} {
		select {
		case got := <-log:
			if got != want {
				t.Errorf("logged at %s, not at %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("nothing was logged at %s", want)
		}
	}
	if len(log) != 0 {
		t.Errorf("logged at %s, too", <-log)
	}
}
