package crash

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// An import that fills the disk says so. Once there is space again, the same command continues.
func TestImportOnFullDisk(t *testing.T) {
	etcd := servers.Etcd(t, "--unsafe-no-fsync")
	client := pb.NewKVClient(dial(t, etcd.Endpoint()))
	value := bytes.Repeat([]byte("v"), 100_000)
	for i := range 600 {
		if _, err := client.Put(t.Context(), &pb.PutRequest{Key: []byte{byte(i)}, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	_ = etcd.Stop() // etcd writes the rest of its file, and ends itself by the signal
	disk := mountMemory(t, 40<<20)
	command := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), launch.Binary(t), "import", "--from", etcd.DataDir(), "--data-dir",
			filepath.Join(disk, "data")).CombinedOutput()
		return string(out), err
	}
	if out, err := command(); err == nil || !strings.Contains(out, "no space") {
		t.Fatalf("import on a disk that is too small: %v: %s", err, out)
	}
	growMemory(t, disk, 400<<20)
	if out, err := command(); err != nil || !strings.Contains(out, "256 keys, 600 rows") {
		t.Errorf("import once there is space: %v: %s", err, out)
	}
}
