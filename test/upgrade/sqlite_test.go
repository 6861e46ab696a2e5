package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/test/support/journal"
	"github.com/sqlstore/sqlstore/test/support/launch"
)

func TestSQLite(t *testing.T) {
	for _, o := range versions {
		t.Run(o.name, func(t *testing.T) { replace(t, o) })
	}
}

// replace kills an old server under load, replaces it with a new one, and goes back.
func replace(t *testing.T, o *old) {
	f := newFile(t, o)
	f.load(true)
	wal := filepath.Join(f.server.DataDir(), "sqlstore.db-wal")
	if info, err := os.Stat(wal); err != nil || info.Size() == 0 {
		t.Errorf("the write-ahead log is empty, so that this test proves nothing: %v, %v", info, err)
	}
	f.succeeds(t, fmt.Sprintf("version %d of ", o.sqlite), "schema", "status")

	f.become(nil)
	before := f.model.Rev
	f.load(false)
	f.awaitChecksums(t)
	f.refuses(t, "commit time is not known", "revision", "--of", strconv.FormatInt(before, 10))
	f.succeeds(t, "committed 2", "revision", "--of", strconv.FormatInt(before+1, 10))
	f.load(true)
	f.succeeds(t, "(up to date)", "schema", "status")

	f.server.Use(t, o.serve(t))
	if err := f.server.TryRestart(); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("the old server on the new file: %v", err)
	}
	f.succeeds(t, fmt.Sprintf("version %d of ", o.sqlite), "schema", "down", "--to", strconv.Itoa(o.sqlite), "--yes")
	f.become(o.serve(t))
	f.load(true)
	f.become(nil)
	f.load(false)
	f.awaitChecksums(t)
}

// file is a SQLite database that is served by one program after another.
type file struct {
	*testing.T
	database
	server   *launch.Server
	journal  *journal.Journal
	model    *journal.Model
	watchers []*journal.Watcher
	loads    uint64
}

func newFile(t *testing.T, o *old) *file {
	t.Helper()
	f := &file{T: t, server: launch.Start(t, launch.Config{Command: o.serve(t)}), journal: journal.New()}
	f.database, f.model = database{"SQLSTORE_DATA_DIR=" + f.server.DataDir()}, journal.NewModel(f.journal)
	for _, span := range [][2]string{{"\x00", "\x00"}, {"t/", "t0"}, {"l/", "l0"}} {
		w, err := journal.Watch(t.Context(), f.server.Endpoint(), span[0], span[1])
		if err != nil {
			t.Fatal(err)
		}
		f.watchers = append(f.watchers, w)
	}
	return f
}

// load writes until some hundred writes are acknowledged. Then it kills the server or verifies the file.
func (f *file) load(killed bool) {
	f.Helper()
	const writes = 400
	ctx, cancel := context.WithTimeout(f.Context(), stepTimeout)
	defer cancel()
	enough := make(chan error, 1)
	go func() {
		defer cancel()
		err := f.journal.AwaitMore(ctx, writes)
		if killed && err == nil {
			f.server.Kill()
		}
		enough <- err
	}()
	f.loads++
	err := journal.Load{Endpoints: []string{f.server.Endpoint()}, Seed: f.loads}.Run(ctx, f.journal)
	if err := errors.Join(err, <-enough); err != nil {
		f.Fatal(err)
	}
	if !killed {
		f.verify()
	}
}

// become restarts the server with a command, nil for the new program, and verifies the file.
func (f *file) become(command []string) {
	f.Helper()
	f.server.Use(f, command)
	f.server.Restart(f)
	f.verify()
}

func (f *file) verify() {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), stepTimeout)
	defer cancel()
	if err := journal.Verify(ctx, f.server.Endpoint(), f.model, f.watchers); err != nil {
		f.Fatal(err)
	}
}
