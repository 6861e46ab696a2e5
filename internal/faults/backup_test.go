package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/backup"
)

// Backups are stale while changes are not saved, and while the last full backup has no successor.
func TestBackup(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	failed := errors.New("the disk is full")
	for name, c := range map[string]struct {
		state        backup.State
		reason, says string
	}{
		"another replica makes them": {state: backup.State{Saved: ago(time.Hour), Err: failed}},
		"saved": {
			state: backup.State{Leads: true, Saved: ago(time.Second), LastFull: ago(47 * time.Hour)},
		},
		"not saved": {
			backup.State{Leads: true, Saved: ago(time.Minute), Err: failed},
			"WriteFailed",
			"1m0s is not saved: the disk",
		},
		"not yet": {
			backup.State{Leads: true, Since: ago(time.Minute), Full: ago(time.Minute)}, "FirstFullBackup", "nothing to",
		},
		"behind": {backup.State{Leads: true, Saved: ago(time.Minute)}, "Slow", "1m0s is not saved"},
		"full backups fail": {
			backup.State{Leads: true, Saved: now, LastFull: ago(49 * time.Hour), FullErr: failed},
			"FullBackupFailed",
			"began 49h0m0s ago; changes since then are saved",
		},
		"a full backup fails, and the next one runs": {
			backup.State{Leads: true, Saved: now, LastFull: ago(49 * time.Hour), FullErr: failed, Full: now},
			"FullBackupFailed", "the disk is full",
		},
		"a full backup failed, but there is time": {
			state: backup.State{Leads: true, Saved: now, LastFull: ago(25 * time.Hour), FullErr: failed},
		},
		"a full backup begins after a long stop": {
			state: backup.State{Leads: true, Saved: now, LastFull: ago(99 * time.Hour), Full: ago(time.Hour)},
		},
		"a full backup takes long": {
			backup.State{Leads: true, Saved: now, LastFull: ago(49 * time.Hour), Full: ago(25 * time.Hour)},
			"FullBackupSlow", "running for 25h0m0s",
		},
	} {
		f := Backup(c.state, 5*time.Second, 24*time.Hour, now)
		switch {
		case f == nil && c.reason != "":
			t.Errorf("%s: no fault", name)
		case f != nil && (f.Reason != c.reason || !strings.Contains(f.Message, c.says)):
			t.Errorf("%s: %+v", name, f)
		}
	}
}
