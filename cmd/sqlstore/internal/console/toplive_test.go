package console_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// tables returns what Top shows in each grouping.
func (s *served) tables() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, by := range []string{"prefix", "kind", "namespace", "field", "field&kind=v1+ConfigMap"} {
		_, table, _ := strings.Cut(s.get("/top?by="+by).want(200, "<table").body, "<tbody>")
		all[by], _, _ = strings.Cut(table, "</table>")
	}
	return all
}

// shows waits until the page of Top shows a revision. It reads the page after each event of a stream.
func (s *served) shows(page *events, revision int64) {
	s.t.Helper()
	for want := fmt.Sprintf("Live, at revision %d;", revision); ; {
		if e, ok := page.next(); !ok || e.name == "failed" {
			s.t.Fatalf("the page does not show revision %d: %+v", revision, e)
		}
		if strings.Contains(s.get("/top").body, want) {
			return
		}
	}
}

// A result that has followed the changes is the one that another count would have, whoever looked at it and when.
func TestTopLive(t *testing.T) {
	t.Parallel()
	s := serve(t)
	random := rand.New(rand.NewPCG(1, 2))
	change := func() clientv3.Op {
		key := fmt.Sprintf("/registry/%c/%d", 'a'+rune(random.IntN(3)), random.IntN(8))
		switch random.IntN(3) {
		case 0:
			return clientv3.OpDelete(key)
		case 1:
			return clientv3.OpPut(key, strings.Repeat("x", random.IntN(5000)))
		default:
			return clientv3.OpPut(key, configMap(random.IntN(1000)))
		}
	}
	last := s.put("/registry/a/1", "x")
	write := func(n int) {
		for range n {
			ops := map[string]clientv3.Op{}
			for range 1 + random.IntN(4) {
				op := change()
				ops[string(op.KeyBytes())] = op
			}
			var all []clientv3.Op
			for _, op := range ops {
				all = append(all, op)
			}
			answer, err := s.client.Txn(s.within()).Then(all...).Commit()
			if err != nil {
				t.Fatal(err)
			}
			last = answer.Header.Revision
		}
	}
	write(50)
	s.counted()
	for range 3 {
		write(20) // while nobody looks
		pages := []*events{s.stream("/top/live"), s.stream("/top/live")}
		write(20)
		s.checked(s.client.Delete(s.within(), "/registry/b/", clientv3.WithPrefix()))
		write(5)
		for _, page := range pages {
			s.shows(page, last)
			_ = page.body.Close()
		}
		followed := s.tables()
		s.counted()
		for by, want := range s.tables() {
			if followed[by] != want {
				t.Fatalf("by %s: followed\n%s\nwant\n%s", by, followed[by], want)
			}
		}
	}
}

// A large transaction is shown as a whole, and values are counted as they are stored.
func TestTopLarge(t *testing.T) {
	t.Parallel()
	s := serve(t)
	large := func() int64 {
		var ops []clientv3.Op
		for i := range 128 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/large/a/%03d", i), strings.Repeat("x", 8<<10)))
		}
		answer, err := s.client.Txn(s.within()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return answer.Header.Revision
	}
	large()
	s.counted()
	s.get("/top").want(200, `>128<td class="number">1.0 MiB<td class="number">128<td class="number">0`)
	page := s.stream("/top/live")
	s.shows(page, large())
	s.get("/top").want(200, `>128<td class="number">1.0 MiB<td class="number">256<td class="number">0`)
	s.shows(page, s.put("/json/a/1", " {\"a\":1}\n"))
	s.get("/top").want(200, `/json/a/</bdi></a><td class="number">1<td class="number">18 B`)
	_ = page.body.Close()
	s.counted()
	s.get("/top").want(200, `/json/a/</bdi></a><td class="number">1<td class="number">18 B`)
}

// A page that was not looked at for longer than the history is kept says so.
func TestTopLiveCompacted(t *testing.T) {
	t.Parallel()
	s := serve(t)
	if e, _ := s.stream("/top/live").next(); e.name != "done" {
		t.Errorf("without a count: %+v", e)
	}
	s.put("a", "x")
	s.counted()
	for range 3 {
		if _, err := s.client.Compact(s.within(), s.put("a", "y")); err != nil {
			t.Fatal(err)
		}
	}
	page := s.stream("/top/live")
	e, ok := page.next()
	for ; ok && e.name != "failed"; e, ok = page.next() {
	}
	if !ok || !strings.Contains(e.data, "compacted: count again") {
		t.Errorf("%+v", e)
	}
	s.users()
	if e, _ := s.stream("/top/live", alice).next(); e.name != "failed" {
		t.Errorf("without rights: %+v", e)
	}
	if p := s.get("/top/live"); p.code != http.StatusOK || !strings.Contains(p.body, "failed") {
		t.Errorf("without a user: %d %s", p.code, p.body)
	}
}
