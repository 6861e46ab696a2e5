package moves

import (
	"bytes"
	"cmp"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/moves/server"
)

// command runs sqlstore and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), launch.Binary(t), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sqlstore %q: %v: %s", args, err, &stderr)
	}
	return string(out)
}

// A store moves from kine to sqlstore, on SQLite and Postgres, and back to kine, with the commands. Each lists the same
// at every revision.
func TestThereAndBack(t *testing.T) {
	v := server.Versions[0]
	for _, d := range databases(t) {
		t.Run(d.name, func(t *testing.T) {
			endpoint, url := d.create(t)
			k := v.Start(t, endpoint)
			h := newHistory(t, k.Client, v.Compacts)
			h.write(writes(t))
			h.settle()
			want := record(t, k.Client, h.compacted)
			k.Stop(t)
			want.setCreated()
			for _, target := range []string{
				"--data-dir=" + filepath.Join(t.TempDir(), "sqlite"), "--datastore=" + pgserver.Database(t),
			} {
				if out := command(t, "import", "--from", url, target); !strings.Contains(out, "are equal") {
					t.Errorf("import: %q", out)
				}
				command(t, "check", target)
				s := launch.Start(t, launch.Config{Args: []string{target}})
				checkKine(t, connect(t, s.Endpoint()), want, true)
				if err := s.Stop(); err != nil {
					t.Fatal(err)
				}
				back, to := d.create(t)
				command(t, "export", target, "--to", to)
				k := v.Start(t, back)
				checkKine(t, k.Client, withLiveLeases(want), v.Compacts)
				k.Stop(t)
			}
		})
	}
}

// setCreated sets the create revisions that kine shows as 0 at first, of keys that were updated after their deletion.
func (l *lists) setCreated() {
	for _, kvs := range l.at {
		for _, kv := range kvs {
			kv.CreateRevision = cmp.Or(kv.CreateRevision, kv.ModRevision)
		}
	}
}

// withLiveLeases is what is left of the lists once only the leases of keys that exist are known: the TTL of one that
// has ended is not.
func withLiveLeases(l *lists) *lists {
	live := map[int64]bool{}
	for _, kv := range l.at[l.current] {
		live[kv.Lease] = true
	}
	left := &lists{
		compacted: l.compacted, current: l.current, compact: l.compact, at: map[int64][]*mvccpb.KeyValue{},
	}
	for revision, kvs := range l.at {
		for _, kv := range kvs {
			c := proto.CloneOf(kv)
			if !live[c.Lease] {
				c.Lease = 0
			}
			left.at[revision] = append(left.at[revision], c)
		}
	}
	return left
}
