package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func openLog(t *testing.T, path string, level Level) *Log {
	t.Helper()
	l, err := Open(path, level)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// lines returns the entries of a file.
func lines(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		entry := map[string]any{}
		if err := json.Unmarshal(s.Bytes(), &entry); err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		all = append(all, entry)
	}
	return all
}

func TestEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := openLog(t, path, Writes)
	l.Add(&Entry{
		User: "alice", CN: "node-1", Address: "10.0.0.1:99", Call: "/etcdserverpb.KV/DeleteRange",
		Key: []byte("a"), End: []byte("\xff"), Revision: 7, Outcome: OK,
		Details: []slog.Attr{slog.String("lease", "4d2")},
		Operations: []Operation{
			{Branch: "compare", Key: []byte("k")},
			{Branch: "success", Call: "Put", Key: []byte{0xc3, 0x28}},
		},
	})
	long := strings.Repeat("k", 2*longestKey)
	l.Add(&Entry{
		Call: "/etcdserverpb.KV/Put", Key: []byte(long), Outcome: long, Details: []slog.Attr{slog.String("name", long)},
	})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all := lines(t, path)
	if len(all) != 2 {
		t.Fatalf("%d entries", len(all))
	}
	e := all[0]
	if at, err := time.Parse(time.RFC3339Nano, e["time"].(string)); err != nil || time.Since(at) > time.Hour {
		t.Errorf("time %v: %v", e["time"], err)
	}
	for name, want := range map[string]any{
		"msg": "audit", "level": "INFO", "user": "alice", "cn": "node-1", "address": "10.0.0.1:99",
		"call": "/etcdserverpb.KV/DeleteRange", "key": "a", "range_end_base64": "/w==", "revision": 7.0,
		"outcome": "OK", "lease": "4d2",
	} {
		if e[name] != want {
			t.Errorf("%s is %v, want %v", name, e[name], want)
		}
	}
	ops := e["operations"].([]any)
	second := ops[1].(map[string]any)
	if len(ops) != 2 || second["branch"] != "success" || second["call"] != "Put" || second["key_base64"] != "wyg=" {
		t.Errorf("operations %v", ops)
	}
	for _, name := range []string{"key", "name", "outcome"} {
		if value := all[1][name].(string); len(value) != longestKey {
			t.Errorf("%s of %d bytes", name, len(value))
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestLevels(t *testing.T) {
	dir := t.TempDir()
	writes, all := openLog(t, filepath.Join(dir, "w"), Writes), openLog(t, filepath.Join(dir, "a"), All)
	var none *Log
	if !writes.Wants(true) || writes.Wants(false) || !all.Wants(true) || !all.Wants(false) || none.Wants(true) {
		t.Error("wrong calls are wanted")
	}
	for text, want := range map[string]Level{"writes": Writes, "all": All} {
		if got, err := ParseLevel(text); got != want || err != nil {
			t.Error(text, got, err)
		}
	}
	if _, err := ParseLevel("reads"); err == nil {
		t.Error("reads is a level")
	}
}

// Rotation moves the log to a new file and loses nothing.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := openLog(t, path, Writes)
	const each = 1000
	for range each {
		l.Add(&Entry{Call: "before"})
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	for range each {
		l.Add(&Entry{Call: "after"})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	old, now := lines(t, path+".1"), lines(t, path)
	if len(old)+len(now) != 2*each || len(now) < each || l.Err() != nil || l.Lost() != 0 {
		t.Errorf("%d old and %d new entries, %v, %d lost", len(old), len(now), l.Err(), l.Lost())
	}
	if err := l.Reopen(); err != nil {
		t.Errorf("after the end: %v", err)
	}
	l.Add(&Entry{}) // nor does this
}

// A log whose file cannot be opened again stays in the old one, and says so until it can.
func TestFailingRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.log")
	l := openLog(t, path, Writes)
	retained := dir + "-moved"
	if err := os.Rename(dir, retained); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil || !errors.Is(l.Err(), ErrWrite) {
		t.Fatalf("%v, %v", err, l.Err())
	}
	l.Add(&Entry{Call: "meanwhile"})
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil || l.Err() != nil {
		t.Fatalf("%v, %v", err, l.Err())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(lines(t, filepath.Join(retained, "audit.log"))) + len(lines(t, path)); n != 1 {
		t.Errorf("%d entries", n)
	}
}

// stuck is a file whose writes block until free is closed.
type stuck struct{ free chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.free; return len(p), nil }
func (stuck) Close() error                  { return nil }

// A file that takes nothing holds up nobody.
func TestStuckFile(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "log"), Writes)
	s := stuck{make(chan struct{})}
	l.use(s)
	for range queued + 100 {
		l.Add(&Entry{})
	}
	if n := l.Lost(); n < 99 || !errors.Is(l.Err(), ErrLost) {
		t.Errorf("%d lost, %v", n, l.Err())
	}
	close(s.free)
}
