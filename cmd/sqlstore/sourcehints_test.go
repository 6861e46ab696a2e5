package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend/sqlite"
)

// A source or target that is named wrongly is refused with what to write.
func TestSourceHints(t *testing.T) {
	dir := resolvedPath(t.TempDir())
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{
		"etcd/member/snap/other.snap": "not a database", "etcd/member/snap/db": "", "k3s/state.db": "",
		"sqlstore/sqlstore.db": "", "foreign.db": "SQLite format 3\x00" + strings.Repeat("\x01", 8192), "none/file": "",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(at(name)), 0o700),
			os.WriteFile(at(name), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for from, want := range map[string]string{
		"":                                "--from is required: a snapshot file, ",
		"127.0.0.1:2379":                  "write http://127.0.0.1:2379, or https://127.0.0.1:2379 ",
		"localhost:2379":                  "write http://localhost:2379, ",
		"missing.db":                      "no such file or directory: give a snapshot file, ",
		at("none"):                        "and not etcd's, which contains member/snap/db: give ",
		at("etcd/member"):                 "write " + at("etcd/member/snap/db"),
		at("etcd/member/snap"):            "write " + at("etcd/member/snap/db"),
		at("etcd/member/snap/other.snap"): "or member/snap/db of a stopped etcd",
		at("sqlstore"):                    "write sqlite://" + at("sqlstore/sqlstore.db"),
		at("k3s"):                         "write kine+sqlite://" + at("k3s/state.db"),
		"foreign.db":                      "write sqlite://" + at("foreign.db") + " if it is sqlstore's, or kine+",
		"sqlite://" + at("foreign.db"):    "if it is kine's, write --from kine+sqlite://" + at("foreign.db"),
		"sqlite://foreign.db":             "write sqlite://" + at("foreign.db"),
		"kine+sqlite://foreign.db":        "write kine+sqlite://" + at("foreign.db"),
		"sqlite://":                       "write sqlite:///path/to/file",
		"mysql://user:secret@host/db":     "only kine stores in mysql: write its URL as kine+mysql://",
		"ftp://user:secret@host/db":       "the unknown kind ftp://: give ",
		"postgres//user:secret@host/db":   "--from is no file, and no URL: give a snapshot file, ",
		"host=x Password=secret":          "--from is no file, and no URL: give a snapshot file, ",
	} {
		_, err := (&sourceFlags{from: from}).open(t.Context(), nil, io.Discard)
		checkHint(t, "--from "+from, err, want)
	}
	for to, want := range map[string]string{
		"":                         "--to is required: kine+sqlite:///path, ",
		"http://127.0.0.1:2379":    "'etcdctl snapshot save'",
		"127.0.0.1:2379":           "'etcdctl snapshot save'",
		"state.db":                 "write kine+sqlite://" + at("state.db"),
		"sqlite:///state.db":       "write kine+ before the URL",
		"mysql://user:secret@host": "write kine+ before the URL",
		"kine+sqlite://state.db":   "write kine+sqlite://" + at("state.db"),

		"postgres//user:secret@host/db": "--to is not a URL: write kine+sqlite:///path, ",
	} {
		checkHint(t, "--to "+to, checkExportTarget(to), want)
	}
	_, err := openBucket(t.Context(), "to", "postgres://user:secret@host/db", false)
	checkHint(t, "a bucket", err, "--to has the unknown kind postgres://: give a directory, ")
	if left, err := filepath.Glob(at("*.lock")); err != nil || len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func checkHint(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// A restore that was interrupted continues whatever the spelling of its source is, and so does an import.
func TestSpellingsOfASource(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := filepath.Join(dir, "sqlstore.db")
	b, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err == nil {
		err = b.Close()
	}
	if err := errors.Join(err, os.Symlink("saved", "link")); err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(dir, "saved")
	backup := backupper{source: sourceFlags{from: "sqlite://" + path}, to: saved}
	if err := backup.run(t.Context(), io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	mark := func(from string) int64 {
		r := &storeRestorer{bucket: bucketFlags{at: from}}
		src, err := r.open(t.Context(), 0, "", io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if err := src.Close(); err != nil {
			t.Fatal(err)
		}
		return r.mark(src)
	}
	want := mark(saved)
	for _, from := range []string{"saved", "./saved/", saved + "//", "file://" + saved, "link"} {
		if mark(from) != want {
			t.Errorf("%s counts as another source than %s", from, saved)
		}
	}
	for name, same := range map[string]string{
		"s3://b?region=a&prefix=p/": "s3://b/?prefix=p/&region=a", "gs://b": "gs://b/",
	} {
		if got, want := resolvedBucket(name, ""), resolvedBucket(same, ""); got != want {
			t.Errorf("%s and %s", got, want)
		}
	}
	for from, same := range map[string]string{
		"sqlstore.db": path, "./sqlstore.db": path, "http://host:1/": "http://host:1",
	} {
		if (&sourceFlags{from: from}).name() != (&sourceFlags{from: same}).name() {
			t.Errorf("%s counts as another source than %s", from, same)
		}
	}
}
