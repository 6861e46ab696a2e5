package clients

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// agedTTL is the TTL of the leases agedLease and the next one, in seconds. agedLeft is the remaining time of the first
// when the tests begin.
const agedLease, agedTTL, agedLeft = 77, 1000, 600

// agedEtcd returns an etcd whose lease agedLease has used up a part of its TTL. The file says so, as if etcd had made a
// checkpoint.
func agedEtcd(t *testing.T) *launch.Server {
	t.Helper()
	etcd := servers.Etcd(t, "--unsafe-no-fsync")
	s := connect(t, etcd)
	writeHistory(t, s, 0)
	for id, key := range map[int64]string{agedLease: "aged", agedLease + 1: "fresh"} {
		if _, err := s.lease.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: id, TTL: agedTTL}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.kv.Put(t.Context(), &pb.PutRequest{Key: []byte(key), Lease: id}); err != nil {
			t.Fatal(err)
		}
	}
	ctl(t, etcd.Endpoint(), "", "snapshot", "save", filepath.Join(t.TempDir(), "commit.db")).must(t) // to the file
	etcd.Kill()
	db, err := bbolt.Open(filepath.Join(etcd.DataDir(), "member", "snap", "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		lease, err := proto.Marshal(&leasepb.Lease{ID: agedLease, TTL: agedTTL, RemainingTTL: agedLeft})
		if err != nil {
			return err
		}
		return tx.Bucket([]byte("lease")).Put(binary.BigEndian.AppendUint64(nil, agedLease), lease)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return etcd
}

// left returns how many seconds a lease has left.
func left(t *testing.T, s services, id int64) int64 {
	t.Helper()
	state, err := s.lease.LeaseTimeToLive(t.Context(), &pb.LeaseTimeToLiveRequest{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	if state.GrantedTTL != agedTTL {
		t.Fatalf("lease %d: %v", id, state)
	}
	return state.TTL
}

// checkLeft compares the remaining time of a lease with the source's, which was most before the move: the target's is
// not longer, but for the second that etcd rounds down and an import up, and not shorter than the source's is now,
// since it stands still until the target starts. A target's lease begins with its TTL at most, while etcd adds a second
// at its start.
func checkLeft(t *testing.T, source, target services, id, most int64) {
	t.Helper()
	got := left(t, target, id)
	if least := min(left(t, source, id), agedTTL-1); got < least || got > most+1 {
		t.Errorf("lease %d has %d s left, want %d to %d", id, got, least, most+1)
	}
}

// The remaining time of leases moves, too: from a running server, from a file and from a database, to each kind of
// database and back to etcd. A restart gives them their full TTL, as always.
func TestImportLeases(t *testing.T) {
	etcd := agedEtcd(t)
	file := filepath.Join(t.TempDir(), "copy.db")
	content, err := os.ReadFile(filepath.Join(etcd.DataDir(), "member", "snap", "db"))
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	etcd.Restart(t)
	source := connect(t, etcd)
	most := left(t, source, agedLease)
	if most > agedLeft+1 { // etcd adds a second when it starts
		t.Fatalf("etcd's lease has %d s left", most)
	}
	fromFile, fromServer, next := importTargets(t), importTargets(t), importTargets(t)
	for name, target := range fromServer {
		sqlstore(t, "import", "--from", etcd.ClientURL(), "--work-dir", t.TempDir(), target).must(t)
		sqlstore(t, "check", target).must(t)
		if name == "sqlite" { // nobody has opened it: the time has not begun
			sqlstore(t, "import", "--from", databaseURL(target), next["postgres"]).must(t)
			checkLeft(t, source, connect(t, launch.Start(t, launch.Config{Args: []string{next["postgres"]}})),
				agedLease, most)
		}
		server := launch.Start(t, launch.Config{Args: []string{target}})
		s := connect(t, server)
		checkLeft(t, source, s, agedLease, most)
		checkLeft(t, source, s, agedLease+1, agedTTL)

		back, dir := filepath.Join(t.TempDir(), "back.db"), filepath.Join(t.TempDir(), "restored")
		ctl(t, server.Endpoint(), "", "snapshot", "save", back).must(t)
		utl(t, "snapshot", "restore", back, "--data-dir", dir).must(t)
		checkLeft(t, source, connect(t, launch.Start(t, servers.EtcdConfig(t, dir))), agedLease, most)

		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		if name == "postgres" { // its clock has gone on until the last heartbeat
			sqlstore(t, "import", "--from", databaseURL(target), next["sqlite"]).must(t)
			checkLeft(t, source, connect(t, launch.Start(t, launch.Config{Args: []string{next["sqlite"]}})),
				agedLease, most)
		}
		server.Restart(t)
		if got := left(t, connect(t, server), agedLease); got <= agedLeft {
			t.Errorf("%s: after a restart, %d s are left", name, got)
		}
	}
	for _, target := range fromFile {
		sqlstore(t, "import", "--from", file, target).must(t)
		checkLeft(t, source, connect(t, launch.Start(t, launch.Config{Args: []string{target}})), agedLease, agedLeft)
	}
}

// A cut-over takes the remaining time that the source's leases have then: a client keeps one alive until the cut-over.
func TestCutoverLeases(t *testing.T) {
	etcd := agedEtcd(t)
	etcd.Restart(t)
	source := connect(t, etcd)
	most := left(t, source, agedLease)
	flags := []string{"--from", etcd.ClientURL(), "--work-dir", t.TempDir()}
	for _, target := range importTargets(t) {
		s := startProgram(t, launch.Binary(t), append([]string{"import", "--follow", target}, flags...)...)
		for !strings.HasPrefix(s.line(), "following from revision") {
		}
		ctl(t, etcd.Endpoint(), "", "lease", "keep-alive", "--once", fmt.Sprintf("%x", agedLease+1)).must(t)
		renewed := left(t, source, agedLease+1)
		s.interrupt()
		s.ended()
		sqlstore(t, append([]string{"cutover", "--quiet", "100ms", target}, flags...)...).must(t)
		server := connect(t, launch.Start(t, launch.Config{Args: []string{target}}))
		checkLeft(t, source, server, agedLease, most)
		checkLeft(t, source, server, agedLease+1, renewed)
	}
}
