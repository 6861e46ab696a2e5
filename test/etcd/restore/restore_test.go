package restore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// After random writes, the keys of a prefix are as they were at a random revision. What was equal and what is outside
// stays as it is; revisions and versions go on. A second run writes nothing.
func TestRandomRevisions(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 5 {
			for range 150 {
				key := fmt.Sprintf("/%s/%d", []string{"a", "a0", "b"}[random.IntN(3)], random.IntN(25))
				if random.IntN(3) == 0 {
					s.remove(t, key)
				} else {
					s.put(t, key, strings.Repeat(fmt.Sprint(random.IntN(3)), 1+1000*random.IntN(2)))
				}
			}
			before, now := s.state(t, 0)
			revision := now - random.Int64N(150)
			then, _ := s.state(t, revision)
			args := []string{"--keys=/a/", fmt.Sprintf("--to-revision=%d", revision), "--yes"}
			if round%2 == 0 {
				args = append(args, "--delete-new")
			}
			s.want(t, false, []string{fmt.Sprintf("back from revision %d to revision %d", now, revision)}, args...)
			after, last := s.state(t, 0)
			checkRestored(t, before, then, after, now, round%2 == 0)
			s.want(t, false, []string{"nothing to write"}, args...)
			if _, again := s.state(t, 0); again != last {
				t.Errorf("the second run has written: revision %d, want %d", again, last)
			}
		}
	})
}

// checkRestored compares the state after a restore with those before and at the point.
func checkRestored(t *testing.T, before, then, after map[string]version, now int64, deleteNew bool) {
	t.Helper()
	all := map[string]bool{}
	for _, state := range []map[string]version{before, then, after} {
		for key := range state {
			all[key] = true
		}
	}
	for key := range all {
		was, existed := before[key]
		want, wanted := then[key]
		got, exists := after[key]
		switch {
		case !strings.HasPrefix(key, "/a/"), wanted && existed && was.value == want.value,
			!wanted && existed && !deleteNew:
			if got != was || exists != existed {
				t.Errorf("%s: %+v, want it untouched: %+v", key, got, was)
			}
		case !wanted:
			if exists {
				t.Errorf("%s: %+v, want none", key, got)
			}
		case got.value != want.value || got.modified <= now || got.number != was.number+1:
			t.Errorf("%s: %+v, want the value of %+v after %+v and revision %d", key, got, want, was, now)
		}
	}
}

// many writes keys with large values, deletes them, and returns the revision before that.
func many(t *testing.T, s *target) (revision int64) {
	t.Helper()
	for i := range keys {
		revision = s.put(t, fmt.Sprintf("/m/%04d", i), value(i))
	}
	s.remove(t, "/m/", clientv3.WithPrefix())
	return revision
}

const (
	keys = 500
	size = 4096
)

func value(i int) string { return strings.Repeat(fmt.Sprintf("%08d", i), size/8) }

// checkMany verifies that each of the keys is as it was or does not exist, and returns how many do.
func checkMany(t *testing.T, s *target) int {
	t.Helper()
	state, _ := s.state(t, 0)
	for i := range keys {
		if v, ok := state[fmt.Sprintf("/m/%04d", i)]; ok && v.value != value(i) {
			t.Errorf("key %d is %.20q", i, v.value)
		}
	}
	return len(state)
}

// A command that is killed in the middle leaves whole keys, and the same command finishes the work.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		revision := many(t, s)
		p := newProxy(t, s.ClientURL(), keys*size/2)
		defer close(p.release)
		args := []string{"--keys=/m/", fmt.Sprintf("--to-revision=%d", revision), "--yes"}
		cmd := command(t, p.url(), args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-p.held
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if n := checkMany(t, s); n == 0 || n == keys {
			t.Errorf("%d keys exist, want a part of them", n)
		}
		s.want(t, false, []string{"created again", "equal"}, args...)
		if n := checkMany(t, s); n != keys {
			t.Errorf("%d keys, want %d", n, keys)
		}
	})
}

// SIGINT ends the command with the revision to give when it runs again; see also TestKilled.
func TestInterrupted(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		revision := many(t, s)
		p := newProxy(t, s.ClientURL(), keys*size/2)
		to := fmt.Sprintf("--to-revision=%d", revision)
		cmd := command(t, p.url(), "--keys=/m/", to, "--yes")
		go func() {
			<-p.held
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			close(p.release)
		}()
		again := "to write the rest, run the command again with " + strings.Replace(to, "=", " ", 1)
		wantOutput(t, true, []string{again}, cmd)
		if n := checkMany(t, s); n == 0 || n == keys {
			t.Errorf("%d keys exist, want a part of them", n)
		}
		s.want(t, false, []string{"created again"}, "--keys=/m/", to, "--yes")
		if n := checkMany(t, s); n != keys {
			t.Errorf("%d keys, want %d", n, keys)
		}
	})
}

// Keys that somebody else writes after the comparison stay as they are and are reported; all others are put back.
func TestChangedMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		revision := many(t, s)
		last, gone := fmt.Sprintf("/m/%04d", keys-1), fmt.Sprintf("/m/%04d", keys-2)
		s.put(t, gone, "old")
		p := newProxy(t, s.ClientURL(), keys*size/2)
		done := make(chan int64, 1)
		go func() {
			defer close(p.release)
			<-p.held // the last keys are not written yet
			put, err := s.Put(t.Context(), last, "new")
			_, failed := s.Delete(t.Context(), gone)
			if err != nil || failed != nil {
				t.Error(err, failed)
				return
			}
			done <- put.Header.Revision
		}()
		cmd := command(t, p.url(), "--keys=/m/", fmt.Sprintf("--to-revision=%d", revision), "--yes")
		out, err := cmd.CombinedOutput()
		changed := <-done
		for _, part := range []string{
			fmt.Sprintf("%s was written meanwhile, at revision %d, and stays as it is", last, changed),
			gone + " was deleted meanwhile, and stays deleted",
			fmt.Sprintf("%d keys written, 0 deleted", keys-2),
			fmt.Sprintf("run the command again with --to-revision %d", revision),
		} {
			if err == nil || !strings.Contains(string(out), part) {
				t.Errorf("%v:\n%.2000s\nwant %q", err, out, part)
			}
		}
		state, _ := s.state(t, 0)
		if _, ok := state[gone]; ok || state[last].value != "new" || len(state) != keys-1 {
			t.Errorf("%d keys, %s is %q", len(state), last, state[last].value)
		}
	})
}

// A key gets the lease that it had, if that still exists.
func TestLeases(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		grant := func() clientv3.LeaseID {
			return must[*clientv3.LeaseGrantResponse](t)(s.Grant(t.Context(), 3600)).ID
		}
		living, ended, present := grant(), grant(), grant()
		s.put(t, "/l/living", "1", clientv3.WithLease(living))
		s.put(t, "/l/ended", "1", clientv3.WithLease(ended))
		revision := s.put(t, "/l/updated", "1", clientv3.WithLease(ended))
		s.put(t, "/l/updated", "2", clientv3.WithLease(present))
		s.remove(t, "/l/living")
		must[*clientv3.LeaseRevokeResponse](t)(s.Revoke(t.Context(), ended))
		args := []string{"--keys=/l/", fmt.Sprintf("--to-revision=%d", revision), "--yes"}
		s.want(t, false, []string{
			"1 created again, 1 updated", "1 left out because their lease has ended",
			fmt.Sprintf("keeps its present lease, because %016x has ended", int64(ended)),
		}, append(args, "--skip-expired")...)
		s.want(t, false, []string{
			"1 created again", "2 equal", fmt.Sprintf("without its lease %016x, which has ended", int64(ended)),
		}, args...)
		s.want(t, false, []string{"nothing to write"}, args...)
		state, _ := s.state(t, 0)
		for key, lease := range map[string]clientv3.LeaseID{
			"/l/living": living, "/l/ended": 0, "/l/updated": present,
		} {
			if got := state[key]; got.value != "1" || got.lease != int64(lease) {
				t.Errorf("%s: %+v, want lease %x", key, got, lease)
			}
		}
	})
}

// Kubernetes' owners are written before what they own, whatever the order of the keys is.
func TestOwnersFirst(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		var revision int64
		for _, o := range []struct{ key, kind, uid, owner string }{
			{"/registry/pods/default/p", "Pod", "3", "2"},
			{"/registry/replicasets/default/r", "ReplicaSet", "2", "1"},
			{"/registry/services/default/d", "Service", "1", "missing"},
		} {
			revision = s.put(t, o.key, fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":"x","uid":%q,`+
				`"ownerReferences":[{"uid":%q,"name":"y"}]}}`, o.kind, o.uid, o.owner))
		}
		s.remove(t, "/registry/", clientv3.WithPrefix())
		s.want(t, false, []string{"3 keys written"}, "--keys=/registry/", fmt.Sprintf("--to-revision=%d", revision),
			"--yes")
		state, _ := s.state(t, 0)
		service, set := state["/registry/services/default/d"], state["/registry/replicasets/default/r"]
		pod := state["/registry/pods/default/p"]
		if service.modified >= set.modified || set.modified >= pod.modified {
			t.Errorf("the owners have revisions %d and %d, the pod %d", service.modified, set.modified, pod.modified)
		}
	})
}

// A time names the revision that was current at it, where the server knows.
func TestToTime(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		revision := s.put(t, "/t/k", "1")
		if s.etcd {
			s.want(t, true, []string{"name a revision with --to-revision"}, "--keys=/t/", "--to-time=0s", "--yes")
			return
		}
		at := committedAt(t, s, revision)
		for !committedAt(t, s, s.put(t, "/later", "")).After(at) { // commits within a millisecond have one time
		}
		changed := s.put(t, "/t/k", "2")
		for range 2 {
			s.want(t, false, []string{", committed "}, "--keys=/t/", "--to-time="+at.Format(time.RFC3339Nano), "--yes")
		}
		if state, _ := s.state(t, 0); state["/t/k"].value != "1" || state["/t/k"].modified != changed+1 {
			t.Errorf("%+v, want one more write after revision %d", state["/t/k"], changed)
		}
	})
}

// A user who may read but not write, and a revision that is compacted, end the command with a reason.
func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		s.put(t, "/r/k", "1")
		revision := s.put(t, "/r/l", "1")
		s.put(t, "/r/k", "2")
		must[*clientv3.CompactResponse](t)(s.Compact(t.Context(), revision))
		to := fmt.Sprintf("--to-revision=%d", revision)
		s.want(t, true, []string{
			fmt.Sprintf("compacted; the oldest readable one is %d: choose a later one, or take the keys from a backup",
				revision), "nothing was written",
		}, "--keys=/r/", "--to-revision=2", "--yes")
		s.want(t, true, []string{"future revision; the current one is 4"}, "--keys=/r/", "--to-revision=9", "--yes")

		must[*clientv3.AuthUserAddResponse](t)(s.UserAdd(t.Context(), "root", "secret"))
		must[*clientv3.AuthUserGrantRoleResponse](t)(s.UserGrantRole(t.Context(), "root", "root"))
		must[*clientv3.AuthUserAddResponse](t)(s.UserAdd(t.Context(), "reader", "secret"))
		must[*clientv3.AuthRoleAddResponse](t)(s.RoleAdd(t.Context(), "reads"))
		must[*clientv3.AuthRoleGrantPermissionResponse](t)(s.RoleGrantPermission(t.Context(), "reads", "/r/", "/r0",
			clientv3.PermissionType(clientv3.PermRead)))
		must[*clientv3.AuthUserGrantRoleResponse](t)(s.UserGrantRole(t.Context(), "reader", "reads"))
		must[*clientv3.AuthEnableResponse](t)(s.AuthEnable(t.Context()))
		password := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		user := func(name string) []string {
			return []string{"--keys=/r/", to, "--yes", "--user=" + name, "--password-file=" + password}
		}
		s.want(t, true, []string{"user name is empty"}, "--keys=/r/", to, "--yes")
		s.want(t, true, []string{`write "/r/k": etcdserver: permission denied`, "0 keys written"}, user("reader")...)
		s.want(t, false, []string{"1 key written"}, user("root")...)
	})
}
