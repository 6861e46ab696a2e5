package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/faults/cluster/rig"
)

// TestReplacedPrimary cuts the primary off from everything but one replica, and promotes the standby. The other
// replicas continue on that one. The cut-off replica's answers are at most as old as the setting allows, until it finds
// the new primary.
func TestReplacedPrimary(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		stale time.Duration
	}{
		{"bounded", []string{"--datastore-max-staleness", "2s"}, 2 * time.Second},
		{"strict", []string{"--datastore-max-staleness", "0"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := setWith(t, rig.NewDatabases(t), rig.Options{Flags: c.flags, Aside: true})
			s.stale = c.stale
			s.ok(s.Primary.CutOff())
			s.ok(s.Standby.Promote())
			s.serving = s.Standby
			s.flows(s.Replicas[1].Name, s.Replicas[2].Name)
			s.heal(func() error { return nil })
			s.finish("primary is cut off from all but one replica, its standby promoted: " + c.name)
			const found = `"connected to another database server`
			if log := s.Replicas[0].Log("all"); !strings.Contains(log, found) || strings.Contains(log, lostHistory) {
				t.Errorf("%s did not find the new primary, or lost history", s.Replicas[0].Name)
			}
			if err := s.Primary.Execute("SELECT 1 / (NOT pg_is_in_recovery())::int"); err != nil {
				t.Errorf("the old primary does not serve, so that this test proves nothing: %v", err)
			}
		})
	}
}
