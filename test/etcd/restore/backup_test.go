package restore

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// backUp saves the store once, and returns where.
func (s *target) backUp(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "backups")
	wantOutput(t, false, []string{"up to revision"},
		exec.CommandContext(t.Context(), launch.Binary(t), "backup", "--from", s.ClientURL(), "--to", dir))
	return dir
}

// What the server has compacted comes from a backup, with the same difference, question and result.
func TestFromBackup(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		lease := must[*clientv3.LeaseGrantResponse](t)(s.Grant(t.Context(), 3600)).ID
		s.put(t, "/b/deleted", "1", clientv3.WithLease(lease))
		s.put(t, "/b/equal", "1")
		s.put(t, "/b/updated", "0")
		s.put(t, "/bystander", "1")
		revision := s.put(t, "/b/updated", "1")
		s.put(t, "/b/updated", "2")
		dir := s.backUp(t)
		s.remove(t, "/b/", clientv3.WithPrefix())
		s.put(t, "/b/equal", "1")
		s.put(t, "/b/updated", "3")
		s.put(t, "/b/new", "1")
		s.put(t, "/bystander", "2")
		now := s.put(t, "/c", "1")
		must[*clientv3.CompactResponse](t)(s.Compact(t.Context(), now, clientv3.WithCompactPhysical()))
		to := fmt.Sprintf("--to-revision=%d", revision)
		s.want(t, true, []string{"take the keys from a backup with --from"}, "--keys=/b/", to, "--yes")
		args := []string{"--from", dir, "--keys=/b/", to}
		shown := []string{
			fmt.Sprintf("back from revision %d to revision %d of the backup", now, revision),
			"1 created again, 1 updated, 1 kept", "1 equal",
		}
		s.want(t, false, shown, append(args, "--dry-run")...)
		s.want(t, true, append(shown, "standard input is no terminal, so nothing was written"), args...)
		if _, last := s.state(t, 0); last != now {
			t.Errorf("revision %d, want %d: nothing is written without --yes", last, now)
		}
		s.want(t, false, append(shown, "2 keys written, 0 deleted"), append(args, "--yes")...)
		s.want(t, false, []string{"nothing to write"}, append(args, "--yes")...)
		state, last := s.state(t, 0)
		if last != now+2 || len(state) != 6 {
			t.Errorf("%d keys at revision %d", len(state), last)
		}
		for key, want := range map[string]string{
			"/b/deleted": "1", "/b/equal": "1", "/b/updated": "1", "/b/new": "1", "/bystander": "2", "/c": "1",
		} {
			if got := state[key]; got.value != want {
				t.Errorf("%s is %+v, want %q", key, got, want)
			}
		}
		if got := state["/b/deleted"]; got.lease != int64(lease) {
			t.Errorf("%+v, want lease %x", got, lease)
		}
		// Without a point, it is the newest state of the backup.
		s.want(t, false, []string{"1 updated"}, "--from", dir, "--keys=/b/updated", "--exact", "--yes")
		if state, _ := s.state(t, 0); state["/b/updated"].value != "2" {
			t.Errorf("%+v, want the last value in the backup", state["/b/updated"])
		}
		saved := fmt.Sprintf("at revision %d", revision+1)
		for outside, says := range map[string][]string{
			"--to-revision=1000": {"the last one was saved at", saved, "revision 1000 is later"},
			"--to-time=0s":       {"the last one was saved at", saved, "Z is later"},
			"--to-time=2000-01-01": {
				"2000-01-01T00:00:00Z is before the history of the oldest backup", "choose a time after",
			},
		} {
			s.want(t, true, says, "--from", dir, "--keys=/b/", outside, "--yes")
		}
	})
}

// Revisions of another store mean nothing: keys that have the same one are compared by their values.
func TestFromOtherStore(t *testing.T) {
	each(t, func(t *testing.T, s *target) {
		s.put(t, "/o/k", "1")
		dir := s.backUp(t)
		server := launch.Start(t, launch.Config{})
		other := &target{Server: server, Client: connect(t, server.Endpoint())}
		other.put(t, "/o/k", "2")
		other.want(t, false, []string{"1 updated", "1 key written"}, "--from", dir, "--keys=/o/", "--yes")
		if state, _ := other.state(t, 0); state["/o/k"].value != "1" {
			t.Errorf("%+v, want the value in the backup", state["/o/k"])
		}
	})
}

// A time names the revision that was current at it, in a backup that a server makes while it runs.
func TestFromBackupToTime(t *testing.T) {
	for name, args := range map[string][]string{"sqlite": nil, "postgres": {"--datastore", pgserver.Database(t)}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			server := launch.Start(t, launch.Config{
				Args: append(args, "--backup-to", dir, "--backup-interval=100ms"),
			})
			s := &target{Server: server, Client: connect(t, server.Endpoint())}
			waitSaved(t, dir, 1)
			revision := s.put(t, "/t/k", "1")
			at := committedAt(t, s, revision)
			for !committedAt(t, s, s.put(t, "/later", "")).After(at) { // commits within a millisecond have one time
			}
			s.put(t, "/t/k", "2")
			now := s.remove(t, "/t/k")
			must[*clientv3.CompactResponse](t)(s.Compact(t.Context(), now, clientv3.WithCompactPhysical()))
			waitSaved(t, dir, now)
			to := "--to-time=" + at.Format(time.RFC3339Nano)
			s.want(t, true, []string{"take the keys from a backup with --from"}, "--keys=/t/", to, "--yes")
			s.want(t, false, []string{
				fmt.Sprintf("to revision %d of the backup, committed %s", revision,
					at.UTC().Format("2006-01-02T15:04:05")),
				"1 key written",
			}, "--from", dir, "--keys=/t/", to, "--yes")
			if state, _ := s.state(t, 0); state["/t/k"].value != "1" || state["/t/k"].number != 1 {
				t.Errorf("%+v, want the value of then as a new key", state["/t/k"])
			}
		})
	}
}

// waitSaved waits until a file covers a revision, which is the last one.
func waitSaved(t *testing.T, dir string, revision int64) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); ; {
		files, err := filepath.Glob(filepath.Join(dir, "*", fmt.Sprintf("%019d-*", revision)))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("revision %d is not saved", revision)
		}
	}
}
