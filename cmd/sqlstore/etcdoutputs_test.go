package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/etcdflags"
)

func outputsOf(t *testing.T, args ...string) (*slog.Logger, func(), error) {
	t.Helper()
	o, err := etcdflags.Parse(args, nil, nil, etcdflags.Output{Out: io.Discard, Err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return (&etcdMode{options: o}).logger(&slog.LevelVar{})
}

// A log file rotates when it reaches its size, and keeps as many old ones as asked for.
func TestLogRotation(t *testing.T) {
	dir := t.TempDir()
	log, closeLog, err := outputsOf(t, "--log-outputs", filepath.Join(dir, "etcd.log"), "--enable-log-rotation",
		"--log-rotation-config-json", `{"maxsize": 1, "maxbackups": 9}`)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		log.Info("filler", "text", strings.Repeat("x", 1<<19))
	}
	closeLog()
	files, err := filepath.Glob(filepath.Join(dir, "etcd*.log"))
	if err != nil || len(files) < 3 {
		t.Errorf("files %v, %v", files, err)
	}
}

func TestLogOutputs(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	log, closeLog, err := outputsOf(t, "--log-outputs", one+","+two, "--log-format", "console", "--log-level", "warn")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("not this")
	log.With("a", 1).Warn("this", "b", "c")
	closeLog()
	for _, path := range []string{one, two} {
		text, err := os.ReadFile(path)
		if fields := strings.Split(strings.TrimSpace(string(text)), "\t"); err != nil || len(fields) != 5 ||
			fields[1] != "warn" || fields[3] != "this" || fields[4] != `{"a":1,"b":"c"}` {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	for _, args := range [][]string{
		{"--log-outputs", "default,stdout"},
		{"--log-outputs", filepath.Join(dir, "no", "such", "directory")},
		{"--log-outputs", "stderr", "--enable-log-rotation"},
		{"--log-outputs", one + "," + two, "--enable-log-rotation"},
		{"--log-outputs", one, "--enable-log-rotation", "--log-rotation-config-json", "{"},
	} {
		if _, closeLog, err := outputsOf(t, args...); err == nil {
			closeLog()
			t.Errorf("%v: no error", args)
		}
	}
}
