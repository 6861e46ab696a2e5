package etcdshim

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

// A request that etcd accepts and this server cannot fulfil is refused, with the alternative. test/etcd/sidebyside
// compares all other answers with etcd's.
func TestMembershipThatEtcdWouldChange(t *testing.T) {
	s := serve(t, Options{ClientURLs: []string{"http://127.0.0.1:2379"}}, store.Config{})
	c := pb.NewClusterClient(s.conn)
	list, err := c.MemberList(t.Context(), &pb.MemberListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	self := list.Members[0]
	wantAdvice := func(err error, advice string) {
		t.Helper()
		if st := status.Convert(err); st.Code() != codes.Unimplemented || !strings.Contains(st.Message(), advice) {
			t.Errorf("got %v, want Unimplemented with %q", err, advice)
		}
	}
	other := []string{"http://127.0.0.1:2380"}
	_, err = c.MemberAdd(t.Context(), &pb.MemberAddRequest{PeerURLs: other})
	wantAdvice(err, "restore a snapshot")
	_, err = c.MemberAdd(t.Context(), &pb.MemberAddRequest{PeerURLs: other, IsLearner: true})
	wantAdvice(err, "restore a snapshot")
	_, err = c.MemberUpdate(t.Context(), &pb.MemberUpdateRequest{ID: self.ID, PeerURLs: other})
	wantAdvice(err, "advertised client URLs")
	_, err = c.MemberUpdate(t.Context(), &pb.MemberUpdateRequest{ID: self.ID})
	wantAdvice(err, "advertised client URLs")
}
