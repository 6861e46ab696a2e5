package crash

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// A full disk loses no acknowledged write. Once there is space again, writes succeed, at the latest after a restart.
func TestFullDisk(t *testing.T) {
	const ballastBytes = 16 << 20
	size := 48 << 20
	if servers.TargetIsEtcd() {
		size += 192 << 20 // etcd reserves 64 MiB a time for its log
	}
	dir := mountMemory(t, size)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, ballastBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := servers.FileTargetConfig(t)
	cfg.DataDir = filepath.Join(dir, "data")
	server := launch.Start(t, cfg)

	filled := fillDisk(t, server)
	t.Logf("full at revision %d: %v", filled.revision, filled.err)
	if filled.revision < 10 {
		t.Errorf("only %d writes before the disk was full", filled.revision)
	}
	said := regexp.MustCompile(`(?i)no space|disk.*full|full.*disk|space exceeded`)
	if !said.MatchString(server.Log()) && !said.MatchString(filled.err.Error()) {
		t.Errorf("neither the log nor the error says that the disk is full: %v", filled.err)
	}

	if got := get(t, server, "/readyz"); !servers.TargetIsEtcd() && !strings.Contains(got, "[-]NoSpace True DiskFull") {
		t.Errorf("/readyz does not report the full disk: %s", got)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if !writable(t, server) {
		t.Log("still not writable without a restart")
		server.Restart(t)
	}
	checkBig(t, server, filled.acknowledged)
	if !writable(t, server) {
		t.Error("not writable although there is space again")
	}
	if got := get(t, server, "/readyz"); got != "ok\n" {
		t.Errorf("/readyz when there is space again: %s", got)
	}
}

// A full disk releases the reserve: keys can be deleted and compacted without any other room, and then the server
// accepts puts again.
func TestReserveOnFullDisk(t *testing.T) {
	if servers.TargetIsEtcd() {
		t.Log("etcd has no reserve")
		return
	}
	cfg := servers.FileTargetConfig(t)
	cfg.DataDir = filepath.Join(mountMemory(t, 64<<20), "data")
	cfg.Args = append(cfg.Args, "--disk-reserve-bytes", "4MiB")
	server := launch.Start(t, cfg)
	reserve := filepath.Join(cfg.DataDir, "sqlstore.db.reserve")
	filled := fillDisk(t, server)
	if info, err := os.Stat(reserve); err != nil || info.Size() != 0 {
		t.Errorf("the reserve on a full disk: %v, %v", info, err)
	}
	if got := get(t, server, "/readyz"); !strings.Contains(got, "[-]NoSpace True ReserveReleased") {
		t.Errorf("/readyz on a full disk: %s", got)
	}
	checkBig(t, server, filled.acknowledged)
	conn := dial(t, server.Endpoint())
	kv := pb.NewKVClient(conn)
	deleted, err := kv.DeleteRange(t.Context(), &pb.DeleteRangeRequest{Key: []byte("big/"), RangeEnd: []byte("big0")})
	if err != nil || deleted.Deleted != int64(len(filled.acknowledged)) {
		t.Fatalf("delete on a full disk: %v, %v", deleted, err)
	}
	_, err = kv.Compact(t.Context(), &pb.CompactionRequest{Revision: deleted.Header.Revision, Physical: true})
	if err != nil {
		t.Fatalf("compact on a full disk: %v", err)
	}
	if _, err := pb.NewMaintenanceClient(conn).Defragment(t.Context(), &pb.DefragmentRequest{}); err != nil {
		t.Fatalf("defragment on a full disk: %v", err)
	}
	if !writable(t, server) {
		t.Error("not writable after keys were deleted")
	}
	if info, err := os.Stat(reserve); err != nil || info.Size() != 4<<20 {
		t.Errorf("the reserve after keys were deleted: %v, %v", info, err)
	}
}

// opTimeout is longer than any answer takes: an open connection without an answer is a failure.
const opTimeout = 20 * time.Second

// full is how a server behaved as its disk filled up.
type full struct {
	acknowledged map[string]int64 // key -> revision
	revision     int64
	err          error // of the first write that was not acknowledged
}

// fillDisk writes until writing fails ten times.
func fillDisk(t *testing.T, server *launch.Server) full {
	t.Helper()
	kv := pb.NewKVClient(dial(t, server.Endpoint()))
	result := full{acknowledged: map[string]int64{}}
	for i, failures := 0, 0; failures < 10; i++ {
		key := "big/" + strconv.Itoa(i)
		ctx, cancel := context.WithTimeout(t.Context(), opTimeout)
		r, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: bigValue(i)})
		cancel()
		switch status.Code(err) {
		case codes.OK:
			result.acknowledged[key], result.revision = r.Header.Revision, r.Header.Revision
		case codes.DeadlineExceeded, codes.Unknown, codes.Internal:
			t.Fatalf("write %d on a full disk: %v; want a prompt answer that names the cause", i, err)
		default:
			failures++
			if result.err == nil {
				result.err = err
			}
		}
		if i == 10_000 {
			t.Fatal("the disk does not fill up")
		}
	}
	return result
}

func bigValue(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 100<<10) }

// checkBig looks for every acknowledged write.
func checkBig(t *testing.T, server *launch.Server, acknowledged map[string]int64) {
	t.Helper()
	kv := pb.NewKVClient(dial(t, server.Endpoint()))
	for key, rev := range acknowledged {
		i, _ := strconv.Atoi(key[len("big/"):])
		r, err := kv.Range(t.Context(), &pb.RangeRequest{Key: []byte(key)})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Kvs) != 1 || r.Kvs[0].ModRevision != rev || !bytes.Equal(r.Kvs[0].Value, bigValue(i)) {
			t.Errorf("%s, acknowledged at %d, is %.200v", key, rev, r.Kvs)
		}
	}
}

// writable reports whether the server accepts a write within a few seconds.
func writable(t *testing.T, server *launch.Server) bool {
	t.Helper()
	kv := pb.NewKVClient(dial(t, server.Endpoint()))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := kv.Put(ctx, &pb.PutRequest{Key: []byte("small"), Value: []byte("v")}); err == nil {
			return true
		}
		select {
		case <-tick.C:
		case <-server.Exited():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// A server refuses to start on an unwritable directory, and says why.
func TestUnwritableDirectory(t *testing.T) {
	readOnly := mountMemory(t, 1<<20)
	if err := syscall.Mount("", readOnly, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatalf("remount: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ dir, reason string }{
		"read-only":       {readOnly, "read-only file system"},
		"below read-only": {filepath.Join(readOnly, "data"), "read-only file system"},
		"a file":          {file, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := servers.FileTargetConfig(t)
			cfg.DataDir = c.dir
			_, err := launch.TryStart(t, cfg)
			if err == nil {
				t.Fatalf("a server started on %s", c.dir)
			}
			if !regexp.MustCompile(`(?i)` + c.reason).MatchString(err.Error()) {
				t.Errorf("the log does not say %q:\n%v", c.reason, err)
			}
		})
	}
}

// mountMemory mounts a file system of the given size, which the test's cleanup unmounts.
func mountMemory(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(bytes)); err != nil {
		t.Fatalf("mount a file system in memory (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// growMemory resizes what mountMemory has mounted.
func growMemory(t *testing.T, dir string, bytes int) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size="+strconv.Itoa(bytes)); err != nil {
		t.Fatal(err)
	}
}
