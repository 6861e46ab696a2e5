package clients

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// churn writes until its turns are over: puts, deletes of ranges, transactions of several keys, leases with keys, and
// compactions far behind.
func churn(t *testing.T, s services, rnd *rand.Rand, turns int) {
	t.Helper()
	ctx := t.Context()
	for range turns {
		key := fmt.Appendf(nil, "churn/%02d", rnd.IntN(60))
		var err error
		switch rnd.IntN(8) {
		case 0:
			_, err = s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: key, RangeEnd: []byte("churn/zz")})
		case 1:
			_, err = s.kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
				{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}},
				put("churn/other", string(key)), put("churn/third", "1"),
			}})
		case 2:
			var lease *pb.LeaseGrantResponse
			if lease, err = s.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 3600}); err != nil {
				break
			}
			if _, err = s.kv.Put(ctx, &pb.PutRequest{Key: key, Lease: lease.ID}); err == nil && rnd.IntN(2) == 0 {
				_, err = s.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: lease.ID})
			}
		default:
			_, err = s.kv.Put(ctx, &pb.PutRequest{Key: key, Value: fmt.Append(nil, rnd.Int())})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A cluster is cut over from etcd to each kind of database, and from there to the other one. The following is
// interrupted and killed in between, users change, and at the end both have the same history, leases and hash.
func TestCutover(t *testing.T) {
	etcd := servers.Etcd(t, "--unsafe-no-fsync", "--bcrypt-cost", "4")
	targets, next := importTargets(t), importTargets(t)
	for name, target := range targets {
		cutOver(t, etcd, target)
		server := launch.Start(t, launch.Config{Args: []string{target}})
		compareNow(t, connect(t, etcd), connect(t, server))
		other := map[string]string{"sqlite": "postgres", "postgres": "sqlite"}[name]
		cutOver(t, server, next[other])
		compareNow(t, connect(t, server), connect(t, launch.Start(t, launch.Config{Args: []string{next[other]}})))
	}
}

// cutOver moves the store of a server to a target, while it is written to.
func cutOver(t *testing.T, from *launch.Server, target string) {
	t.Helper()
	source := connect(t, from)
	rnd := rand.New(rand.NewPCG(uint64(len(target)), 7))
	churn(t, source, rnd, 200)
	work := t.TempDir()
	flags := []string{"--from", from.ClientURL(), "--work-dir", work, target}
	for _, end := range []func(*session){(*session).interrupt, (*session).kill, (*session).interrupt} {
		s := startProgram(t, launch.Binary(t), append([]string{"import", "--follow"}, flags...)...)
		for !strings.HasPrefix(s.line(), "following from revision") {
		}
		churn(t, source, rnd, 300)
		if name := fmt.Sprint("user", rand.Int()); rnd.IntN(2) == 0 {
			ctl(t, from.Endpoint(), "", "user", "add", name+":password").must(t)
		}
		end(s)
		s.ended()
	}
	churn(t, source, rnd, 100)
	last, err := source.kv.Put(t.Context(), &pb.PutRequest{Key: []byte("the last")})
	if err != nil {
		t.Fatal(err)
	}
	if r := sqlstore(t, "serve", target, "--listen-client-urls=http://127.0.0.1:0"); r.code == 0 ||
		!strings.Contains(r.stderr, "not finished") {
		t.Errorf("a server before the cut-over: exit code %d, %q", r.code, r.stderr)
	}
	out := sqlstore(t, append([]string{"cutover", "--quiet", "200ms", "--keep-cluster-id"}, flags...)...).must(t)
	if want := fmt.Sprintf("revision %d,", last.Header.Revision); !strings.HasPrefix(out, want) ||
		!strings.Contains(out, "equal") {
		t.Errorf("cut-over: %q, want %q", out, want)
	}
	if left, _ := filepath.Glob(filepath.Join(work, "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	sqlstore(t, "check", target).must(t)
}

// compareNow compares the newest state and the history of two servers.
func compareNow(t *testing.T, source, target services) {
	t.Helper()
	r := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	want, err := source.kv.Range(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := target.kv.Range(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	want.Header.MemberId, got.Header.MemberId, want.Header.RaftTerm, got.Header.RaftTerm = 0, 0, 0, 0
	if !proto.Equal(want, got) {
		t.Errorf("range %v, want %v", got, want)
	}
	for rev := want.Header.Revision; rev > 1; rev -= 97 {
		h := &pb.HashKVRequest{Revision: rev}
		a, err := source.maint.HashKV(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		b, err := target.maint.HashKV(t.Context(), h)
		if err != nil || a.Hash != b.Hash {
			t.Errorf("hash at %d: %v, %v; want %v", rev, b, err, a)
		}
	}
	compareLeases(t, source, target)
}

// A store is cut over that was compacted at its current revision: etcd has two hashes for that revision.
func TestCutoverOfCompactedSource(t *testing.T) {
	for name, target := range importTargets(t) {
		etcd := servers.Etcd(t)
		source := connect(t, etcd)
		writeHistory(t, source, 20)
		req := &pb.CompactionRequest{Revision: 41, Physical: true}
		if _, err := source.kv.Compact(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		flags := []string{"--from", etcd.ClientURL(), "--work-dir", t.TempDir(), target}
		follow(t, flags, func() {})
		out := sqlstore(t, append([]string{"cutover", "--quiet", "100ms"}, flags...)...).must(t)
		server := connect(t, launch.Start(t, launch.Config{Args: []string{target}}))
		want, err := source.maint.HashKV(t.Context(), &pb.HashKVRequest{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := server.maint.HashKV(t.Context(), &pb.HashKVRequest{})
		if err != nil || got.Hash != want.Hash || got.CompactRevision != want.CompactRevision {
			t.Errorf("%s: HashKV %v, %v, want %v; %s", name, got, err, want, out)
		}
	}
}

// follow follows a source while f writes to it.
func follow(t *testing.T, flags []string, f func()) {
	t.Helper()
	s := startProgram(t, launch.Binary(t), append([]string{"import", "--follow"}, flags...)...)
	for !strings.HasPrefix(s.line(), "following from revision") {
	}
	f()
	s.interrupt()
	s.ended()
}

// The empty entry of a source whose revision was raised does not count as a difference.
func TestCutoverOfRaisedRevision(t *testing.T) {
	restored := launch.Start(t, servers.EtcdConfig(t, raisedRevision(t)))
	source := connect(t, restored)
	target := filepath.Join(t.TempDir(), "target")
	flags := []string{"--from", restored.ClientURL(), "--work-dir", t.TempDir(), "--data-dir", target}
	follow(t, flags, func() { churn(t, source, rand.New(rand.NewPCG(3, 4)), 100) })
	out := sqlstore(t, append([]string{"cutover", "--quiet", "100ms"}, flags...)...).must(t)
	if !strings.Contains(out, "equal, but for the empty entry") || !strings.Contains(out, "to 1041") {
		t.Errorf("cut-over: %q", out)
	}
	wantKeysOf(t, source, launch.Start(t, launch.Config{Args: []string{"--data-dir=" + target}}))
}
