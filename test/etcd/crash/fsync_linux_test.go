package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
	"github.com/sqlstore/sqlstore/test/support/durability"
)

// The kernel reports a failed sync once and may have dropped the pages: a second one that succeeds proves nothing. So a
// server whose sync fails under load exits, with the reason in its log and its exit status, and acknowledges no write
// that was not synced.
func TestFailedSync(t *testing.T) {
	seed := env.Seed.Uint(t, rand.Uint64())
	t.Logf("seed %d", seed)
	server := launch.Start(t, servers.FileTargetConfig(t))
	r := durability.New()
	if err := r.Watch(t.Context(), server.Endpoint(), ""); err != nil {
		t.Fatal(err)
	}
	for _, first := range []int{20, 1} { // the first sync that fails
		before := r.Acknowledged()
		failSyncs(t, server, first)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := durability.Load{Endpoints: []string{server.Endpoint()}, Seed: seed + uint64(first)}.Run(ctx, r)
		if err != nil {
			t.Errorf("from sync %d on: under load: %v", first, err)
		}
		select {
		case <-server.Exited():
		case <-ctx.Done():
			t.Fatalf("from sync %d on: the server keeps running", first)
		}
		cancel()
		wantFailure(t, server)
		acknowledged := r.Acknowledged() - before
		if first == 1 && acknowledged > 0 {
			t.Errorf("%d writes were acknowledged though no sync succeeded", acknowledged)
		}
		if first > 1 && acknowledged < first/2 {
			t.Errorf("only %d writes acknowledged before sync %d failed: too few to mean anything", acknowledged, first)
		}
		server.Restart(t)
		check(t, server.Endpoint(), r)
		t.Logf("from sync %d on: %d writes acknowledged, revision %d after the restart", first, acknowledged, r.Rev)
	}
}

// wantFailure checks how a server exited.
func wantFailure(t *testing.T, server *launch.Server) {
	t.Helper()
	err := server.Stop()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() <= 0 {
		t.Errorf("the server exited with %v, want a status other than 0", err)
	}
	lines := strings.Split(strings.TrimSpace(server.Log()), "\n")
	last, want := lines[len(lines)-1], "the database is no longer writable, restart to recover"
	if servers.TargetIsEtcd() {
		last, want = server.Log(), "input/output error"
	}
	if !strings.Contains(last, want) {
		t.Errorf("the last log line is %q, want %q", last, want)
	}
}

// failSyncs makes every sync of the running server fail with an I/O error, starting with sync number first from now on
// (counted per thread). It stops the server while strace attaches, so that strace sees every thread.
func failSyncs(t *testing.T, server *launch.Server, first int) {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("this test needs strace: %v; make e2e-etcd installs it given apt-get and root", err)
	}
	if err := syscall.Kill(server.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	what := "fsync,fdatasync,sync_file_range"
	cmd := exec.Command(path, "-f", "-p", strconv.Itoa(server.PID()), "-o", filepath.Join(t.TempDir(), "trace"),
		"-e", "trace="+what, "-e", fmt.Sprintf("inject=%s:error=EIO:when=%d+", what, first))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // unless it has ended with the server
		_ = cmd.Wait()
	})
	said := bufio.NewReader(stderr)
	if line, err := said.ReadString('\n'); err != nil || !strings.Contains(line, " attached") {
		t.Fatalf("strace does not attach: %s%v", line, err)
	}
	go io.Copy(io.Discard, said) //nolint:errcheck // ends with strace
	if err := syscall.Kill(server.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
