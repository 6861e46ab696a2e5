package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// An import from a running server that is killed continues with its snapshot, and ends with the source as it was then.
// No other target gets that snapshot, and neither does the same one a day later.
func TestImportContinuesLive(t *testing.T) {
	etcd := servers.Etcd(t, "--unsafe-no-fsync")
	source := connect(t, etcd)
	fill(t, source)
	for name, target := range importTargets(t) {
		work := t.TempDir()
		flags := []string{"--from", etcd.ClientURL(), "--work-dir", work}
		imported := func(target string) result {
			return sqlstore(t, append([]string{"import", target}, flags...)...)
		}
		before, err := source.kv.Range(t.Context(), &pb.RangeRequest{Key: []byte("none")})
		if err != nil {
			t.Fatal(err)
		}
		revision := before.Header.Revision
		if !killImport(t, etcd.ClientURL(), target, "--work-dir", work) {
			t.Fatalf("%s: the import ended before it was killed", name)
		}
		left, err := filepath.Glob(filepath.Join(work, "*"))
		if err != nil || len(left) != 1 {
			t.Fatalf("%s: a killed import leaves %q, %v; want its snapshot", name, left, err)
		}
		ctl(t, etcd.Endpoint(), "", "put", "after", name).must(t)

		out := imported("--data-dir=" + filepath.Join(t.TempDir(), "other")).must(t)
		if want := fmt.Sprintf("revision %d,", revision+1); !strings.Contains(out, want) {
			t.Errorf("%s: another target: %q, want %q", name, out, want)
		}
		day := time.Now().Add(-25 * time.Hour)
		if err := os.Chtimes(left[0], day, day); err != nil {
			t.Fatal(err)
		}
		if r := imported(target); r.code == 0 || !strings.Contains(r.stderr, "interrupted too long ago") {
			t.Errorf("%s: a day later: exit code %d, %q", name, r.code, r.stderr)
		}
		if err := os.Chtimes(left[0], time.Time{}, time.Now()); err != nil {
			t.Fatal(err)
		}
		r := imported(target)
		if want := fmt.Sprintf("with the source as of revision %d\n", revision); r.code != 0 ||
			!strings.Contains(r.stderr, want) {
			t.Errorf("%s: continued: exit code %d, %q; want %q", name, r.code, r.stderr, want)
		}
		if want := fmt.Sprintf("revision %d,", revision); !strings.Contains(r.stdout, want) {
			t.Errorf("%s: continued: %q, want %q", name, r.stdout, want)
		}
		if left, err := filepath.Glob(filepath.Join(work, "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %q, %v", name, left, err)
		}
		sqlstore(t, "check", target).must(t)
	}
}
