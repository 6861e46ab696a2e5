package clients

import (
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// A following says that its source is away, and when it answers again. A cut-over that waits names the key that is
// still written.
func TestFollowState(t *testing.T) {
	etcd := servers.Etcd(t)
	flags := []string{
		"--from", etcd.ClientURL(), "--work-dir", t.TempDir(), "--data-dir", filepath.Join(t.TempDir(), "target"),
	}
	await := func(s *session, prefix string) {
		t.Helper()
		for !strings.HasPrefix(s.line(), prefix) {
		}
	}
	follow := startProgram(t, launch.Binary(t), append([]string{"import", "--follow"}, flags...)...)
	await(follow, "following from revision")
	etcd.Kill()
	await(follow, "the source does not answer")
	etcd.Restart(t)
	await(follow, "the source answers again")
	follow.interrupt()
	follow.ended()

	source := connect(t, etcd)
	cutover := startProgram(t, launch.Binary(t), append([]string{"cutover", "--quiet", "1s"}, flags...)...)
	await(cutover, "catching up")
	quiet, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-quiet:
				stopped <- nil
				return
			default:
				if _, err := source.kv.Put(t.Context(), &pb.PutRequest{Key: []byte("busy")}); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	await(cutover, "waiting: the source wrote busy at revision ")
	close(quiet)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	await(cutover, "the database is open")
	cutover.ended()
}
