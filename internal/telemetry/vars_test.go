package telemetry_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/sqlstore/sqlstore/internal/store"
)

// /debug/vars has what etcd publishes there. Raft's status is null while the server starts, as in etcd.
func TestVars(t *testing.T) {
	m, s := newServer(t, false)
	if _, err := s.Put(t.Context(), &store.PutRequest{Key: []byte("k"), Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	type status struct {
		ID, Lead, RaftState   string
		Term, Commit, Applied int64
	}
	read := func(h http.Handler) (out struct {
		Cmdline             []string
		Memstats            map[string]any
		FileDescriptorLimit uint64  `json:"file_descriptor_limit"`
		RaftStatus          *status `json:"raft.status"`
	},
	) {
		code, body := request(t, h, http.MethodGet, "/debug/vars")
		if err := json.Unmarshal([]byte(body), &out); err != nil || code != http.StatusOK {
			t.Fatal(code, body, err)
		}
		if len(out.Cmdline) != 1 || len(out.Memstats) == 0 || out.FileDescriptorLimit == 0 {
			t.Errorf("%s", body)
		}
		return out
	}
	if got := read(m.StartingHandler("3.7.3", newAlarmed(s))).RaftStatus; got != nil {
		t.Errorf("during the start: %+v", got)
	}
	self := strconv.FormatUint(s.Settings().MemberID, 16)
	want := status{ID: self, Lead: self, RaftState: "StateLeader", Term: s.Epoch(), Commit: 2, Applied: 2}
	if got := read(m.Handler(s, "3.7.3", newAlarmed(s))).RaftStatus; got == nil || *got != want {
		t.Errorf("raft.status %+v, want %+v", got, want)
	}
}
