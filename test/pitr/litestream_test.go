package pitr

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/programs"
)

// litestream replicates a SQLite file.
type litestream struct {
	t       *testing.T
	program string
	config  string
	file    string
	process *exec.Cmd
	log     *os.File
}

// newLitestream starts Litestream with its defaults, except that it looks for changes more often.
func newLitestream(t *testing.T, file string) *litestream {
	t.Helper()
	dir := t.TempDir()
	l := &litestream{
		t: t, program: programs.Litestream.Path(t), config: filepath.Join(dir, "litestream.yml"), file: file,
	}
	const text = "dbs:\n  - path: %s\n    replica:\n      type: file\n      path: %s\n      sync-interval: 100ms\n"
	err := os.WriteFile(l.config, fmt.Appendf(nil, text, file, filepath.Join(dir, "replica")), 0o600)
	if err == nil {
		l.log, err = os.Create(filepath.Join(dir, "log"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.stop()
		if t.Failed() {
			out, err := l.run("ltx")
			t.Log(out, err)
			log, _ := os.ReadFile(l.log.Name())
			t.Logf("log of Litestream:\n%s", log)
		}
		l.log.Close()
	})
	l.start()
	return l
}

func (l *litestream) start() {
	l.t.Helper()
	l.process = exec.Command(l.program, "replicate", "-config", l.config)
	l.process.Stdout, l.process.Stderr = l.log, l.log
	if err := l.process.Start(); err != nil {
		l.t.Fatal(err)
	}
}

// stop lets Litestream copy what is left, and end.
func (l *litestream) stop() {
	if l.process != nil {
		_ = l.process.Process.Signal(syscall.SIGTERM)
		_ = l.process.Wait()
		l.process = nil
	}
}

func (l *litestream) run(args ...string) (string, error) {
	out, err := exec.CommandContext(l.t.Context(), l.program, append(args, "-config", l.config, l.file)...).
		CombinedOutput()
	return string(out), err
}

// last returns the last transaction of Litestream's own numbers that it has copied, "" if there is none.
func (l *litestream) last() string {
	out, err := l.run("ltx")
	if err != nil {
		return ""
	}
	last := ""
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 5 && len(f[2]) == 16 {
			last = max(last, f[2])
		}
	}
	return last
}

// restore restores the file in its place, as at a transaction.
func (l *litestream) restore(id string) {
	l.t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.RemoveAll(l.file + suffix); err != nil {
			l.t.Fatal(err)
		}
	}
	// The flags come before the file.
	out, err := exec.CommandContext(l.t.Context(), l.program, "restore", "-config", l.config, "-txid", id, l.file).
		CombinedOutput()
	if err != nil {
		l.t.Fatalf("restore: %v\n%s", err, out)
	}
}

// awaitAfter returns once Litestream has copied something after a moment.
func (l *litestream) awaitAfter(moment string) {
	l.t.Helper()
	for end := time.Now().Add(time.Minute); l.last() == moment; {
		if time.Now().After(end) {
			l.t.Fatalf("Litestream copies nothing after %q", moment)
		}
	}
}

// Litestream copies the log of a running server that does not verify pages, over its own checkpoints and the server's
// restarts and crashes. A restore serves exactly what was stored, and the server does not serve it until the revision
// is raised. After that, Litestream goes on.
func TestLitestream(t *testing.T) {
	s := launch.Start(t, launch.Config{Args: []string{"--no-page-checksums"}})
	file := filepath.Join(s.DataDir(), "sqlstore.db")
	w := newWriter(t, s)
	l := newLitestream(t, file)
	database := []string{"--data-dir", s.DataDir()}
	l.awaitAfter("")
	w.write(1000) // more than Litestream leaves in the log
	stop(t, s)
	s.Restart(t)
	w.connect(s)
	w.write(500)
	s.Kill()
	s.Restart(t)
	w.connect(s)
	w.write(500)
	w.remember()
	stop(t, s)
	l.stop() // copies the rest
	moment := l.last()
	s.Restart(t)
	w.connect(s)
	l.start()
	w.goOn()
	l.awaitAfter(moment)
	stop(t, s)
	l.stop()
	l.restore(moment)
	w.checkRestored(s, fmt.Sprintf("the file is at revision %d, and its lock file says that it was at %d", w.revision,
		w.highest), database)

	moment = l.last()
	l.start()
	w.connect(s)
	w.write(50)
	w.remember()
	l.awaitAfter(moment)
	stop(t, s)
	l.stop()
	l.restore(l.last())
	s.Restart(t)
	w.connect(s)
	w.checkState(w.revision)
}

// Litestream copies pages without their checksums. A server that verifies them notices, and stops its writes. Nothing
// is lost: a server that does not verify them goes on, and without Litestream, one that does gives them checksums.
func TestLitestreamAndPageChecksums(t *testing.T) {
	s := launch.Start(t, launch.Config{MayEnd: true})
	w := newWriter(t, s)
	l := newLitestream(t, filepath.Join(s.DataDir(), "sqlstore.db"))
	failed := w.overwrite()
	stop(t, s)
	l.stop()
	if log := s.Log(); !strings.Contains(log, "does not match its checksum") &&
		!strings.Contains(log, "another program has written") { // it compares the file every second
		t.Errorf("a write: %v", failed)
	}
	for _, args := range [][]string{{"--no-page-checksums"}, nil} {
		s = launch.Start(t, launch.Config{DataDir: s.DataDir(), Args: args})
		w.connect(s)
		if _, err := w.client.Put(t.Context(), "/k/last", fmt.Sprint(args)); err != nil {
			t.Fatal(err)
		}
		got, err := w.client.Get(t.Context(), "/k/", clientv3.WithPrefix())
		if err != nil || got.Header.Revision != got.Kvs[len(got.Kvs)-1].ModRevision {
			t.Fatalf("%q: %v", args, err)
		}
		if got.Header.Revision <= w.highest {
			t.Errorf("%q: revision %d, acknowledged was %d", args, got.Header.Revision, w.highest)
		}
		out := command(t, "check", "--data-dir", s.DataDir())
		if !strings.Contains(out, " 0 problems") {
			t.Errorf("%q: %s", args, out)
		}
		stop(t, s)
	}
	if log := s.Log(); !strings.Contains(log, "pages have new checksums") {
		t.Errorf("the server without Litestream has not given the pages checksums:\n%s", log)
	}
}

// overwrite overwrites keys until the server refuses it.
func (w *writer) overwrite() error {
	t := w.t
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		got, err := w.client.Put(t.Context(), fmt.Sprintf("/k/%d", w.next%100), strings.Repeat("x", 10_000))
		w.next++
		if err != nil {
			return err
		}
		w.highest = got.Header.Revision
		if time.Now().After(end) {
			t.Fatalf("%d writes, and no page fails its checksum: docs/pitr.md says otherwise", w.next)
		}
	}
}
