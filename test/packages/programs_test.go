package packages

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// The programs in the archives serve, those of arm64 under an emulator. Each knows its version, and its commit.
func TestPrograms(t *testing.T) {
	commit := strings.TrimSpace(run(t, "git", "-c", "safe.directory=*", "rev-parse", "HEAD"))
	if run(t, "git", "-c", "safe.directory=*", "-C", pages.Root(t), "status", "--porcelain") != "" {
		commit += "-modified"
	}
	for arch, emulator := range map[string][]string{"amd64": nil, "arm64": {"qemu-aarch64-static"}} {
		t.Run(arch, func(t *testing.T) {
			if runtime.GOARCH == "arm64" {
				emulator = map[string][]string{"amd64": {"qemu-x86_64-static"}}[arch]
			}
			command := append(emulator, program(t, arch))
			said := run(t, append(command, "version")...)
			for _, part := range []string{
				"sqlstore " + version, "commit   " + commit + "\n", "date     2", " linux/" + arch, "SQLite   3.",
			} {
				if !strings.Contains(said, part) {
					t.Errorf("version prints %s, want %q", said, part)
				}
			}
			server := launch.Start(t, launch.Config{Command: append(command, "serve")})
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for i := range 20 {
				if _, err := client.Put(t.Context(), fmt.Sprint("k", i), "v"); err != nil {
					t.Fatal(err)
				}
			}
			got, err := client.Get(t.Context(), "k", clientv3.WithPrefix())
			if err != nil || got.Count != 20 {
				t.Errorf("got %v, %v; want 20 keys", got, err)
			}
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
