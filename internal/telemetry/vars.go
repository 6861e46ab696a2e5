package telemetry

import (
	"encoding/json"
	"net/http"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/internal/store"
)

// vars answers /debug/vars in the form of package expvar, with etcd's names. s is nil while the server starts. Unlike
// that package, it leaves out the arguments of the command line, which may hold a password for the database.
func vars(s *store.Store) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		var files unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &files) // as in etcd, an unknown limit is 0
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(map[string]any{ // an error means that the client has disconnected
			"cmdline": os.Args[:1], "memstats": memory, "file_descriptor_limit": files.Cur,
			"raft.status": raftStatusOf(s),
		})
	}
}

// raftStatus has the fields of raft's status that mean something here: there are no votes, and there is no progress of
// peers.
type raftStatus struct {
	ID        string `json:"id"`
	Term      int64  `json:"term"` // the epoch
	Commit    int64  `json:"commit"`
	Lead      string `json:"lead"`
	RaftState string `json:"raftState"`
	Applied   int64  `json:"applied"`
}

// raftStatusOf returns nil while the server starts, as etcd does.
func raftStatusOf(s *store.Store) *raftStatus {
	if s == nil {
		return nil
	}
	revision := s.Revision()
	status := raftStatus{
		ID: hex(s.Settings().MemberID), Term: s.Epoch(), Commit: revision, Lead: "0", RaftState: "StateFollower",
		Applied: revision,
	}
	if reachable(s) == nil {
		status.Lead = hex(s.Leader())
		if s.Leads() {
			status.RaftState = "StateLeader"
		}
	}
	return &status
}
