package clients

import (
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// onBoth runs a test against etcd, which validates the test itself, and against the target.
func onBoth(t *testing.T, test func(*testing.T, *launch.Server), args ...string) {
	args = append(args, "--unsafe-no-fsync")
	t.Run("etcd", func(t *testing.T) { test(t, servers.Etcd(t, args...)) })
	t.Run("target", func(t *testing.T) { test(t, servers.Target(t, args...)) })
}

func wantLines(t *testing.T, s *session, want ...string) {
	t.Helper()
	if got := s.read(len(want)); !slices.Equal(got, want) {
		t.Errorf("%s prints %q, want %q", s.name, got, want)
	}
}

func TestWatch(t *testing.T) {
	onBoth(t, func(t *testing.T, server *launch.Server) {
		endpoint := server.Endpoint()
		put := func(args ...string) { ctl(t, endpoint, "", append([]string{"put"}, args...)...).must(t) }
		put("k/1", "a")
		put("k/1", "b")
		ctl(t, endpoint, "", "del", "k/1").must(t)
		put("other", "x")
		put("k/2", "c")

		past := start(t, endpoint, "watch", "k/", "--prefix", "--rev=2", "--prev-kv")
		wantLines(t, past, "PUT", "k/1", "a")
		wantLines(t, past, "PUT", "k/1", "a", "k/1", "b")
		wantLines(t, past, "DELETE", "k/1", "b", "k/1", "")
		wantLines(t, past, "PUT", "k/2", "c")

		// The second command's answer shows that the first one's watch exists, because both share a stream.
		typed := start(t, endpoint, "watch", "-i")
		typed.write("watch now")
		typed.write("watch k/2 --rev=6")
		wantLines(t, typed, "PUT", "k/2", "c")
		put("now", "d")
		put("k/2", "e")
		wantLines(t, typed, "PUT", "now", "d")
		wantLines(t, typed, "PUT", "k/2", "e")
		wantLines(t, past, "PUT", "k/2", "c", "k/2", "e")

		progress := start(t, endpoint, "watch", "nothing", "--progress-notify")
		wantLines(t, progress, "progress notify: 8")
	}, "--watch-progress-notify-interval", "200ms")
}

func TestLeaseKeepAlive(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, server *launch.Server) {
		id := granted.FindStringSubmatch(ctl(t, server.Endpoint(), "", "lease", "grant", "2").must(t))[1]
		ctl(t, server.Endpoint(), "", "put", "leased", "1", "--lease="+id).must(t)
		alive := start(t, server.Endpoint(), "lease", "keep-alive", id)
		for range 5 { // a third of the TTL apart: longer than it in total
			wantLines(t, alive, "lease "+id+" keepalived with TTL(2)")
		}
		if got := ctl(t, server.Endpoint(), "", "get", "leased", "--print-value-only").must(t); got != "1\n" {
			t.Errorf("key on a lease kept alive: %q", got)
		}
		alive.interrupt()
		gone := start(t, server.Endpoint(), "watch", "leased", "--rev=1")
		wantLines(t, gone, "PUT", "leased", "1", "DELETE", "leased", "")
	})
}

func TestLock(t *testing.T) {
	onBoth(t, func(t *testing.T, server *launch.Server) {
		endpoint := server.Endpoint()
		if got := ctl(t, endpoint, "", "lock", "l", "--", "echo", "held").must(t); got != "held\n" {
			t.Errorf("lock prints %q", got)
		}
		first := start(t, endpoint, "lock", "l")
		firstKey := first.line()
		if !strings.HasPrefix(firstKey, "l/") {
			t.Errorf("lock prints %q, want a key below l/", firstKey)
		}
		second := start(t, endpoint, "lock", "l")
		waiting := start(t, endpoint, "watch", "l/", "--prefix", "--rev=1")
		for waiting.line() != firstKey { // which shows its past; then the second one's key follows
		}
		first.interrupt()
		if key := second.line(); key == firstKey || !strings.HasPrefix(key, "l/") {
			t.Errorf("second lock prints %q after %q", key, firstKey)
		}
	})
}

func TestElect(t *testing.T) {
	onBoth(t, func(t *testing.T, server *launch.Server) {
		endpoint := server.Endpoint()
		first := start(t, endpoint, "elect", "e", "one")
		key := first.line()
		wantLines(t, first, "one")
		observer := start(t, endpoint, "elect", "-l", "e")
		wantLines(t, observer, key, "one")
		second := start(t, endpoint, "elect", "e", "two")
		first.interrupt()
		next := second.line()
		wantLines(t, second, "two")
		wantLines(t, observer, next, "two")
	})
}

// make-mirror copies in either direction between etcd and the target, and keeps following.
func TestMakeMirror(t *testing.T) {
	etcd, target := servers.Etcd(t, "--unsafe-no-fsync"), servers.Target(t, "--unsafe-no-fsync")
	mirror := func(t *testing.T, prefix string, from, to *launch.Server) {
		put := func(key, value string) { ctl(t, from.Endpoint(), "", "put", prefix+key, value).must(t) }
		put("1", "a")
		put("2", "b")
		copied := start(t, to.Endpoint(), "watch", prefix, "--prefix", "--rev=1")
		start(t, from.Endpoint(), "make-mirror", "--prefix", prefix, to.Endpoint())
		wantLines(t, copied, "PUT", prefix+"1", "a", "PUT", prefix+"2", "b")
		put("3", "c")
		wantLines(t, copied, "PUT", prefix+"3", "c")
		ctl(t, from.Endpoint(), "", "del", prefix+"1").must(t)
		for copied.line() != "DELETE" { // make-mirror may write a change twice
		}
		wantLines(t, copied, prefix+"1", "")
	}
	t.Run("from etcd", func(t *testing.T) { mirror(t, "e/", etcd, target) })
	t.Run("from target", func(t *testing.T) { mirror(t, "t/", target, etcd) })
}
