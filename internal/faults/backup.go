package faults

import (
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/internal/backup"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// Backups are stale after as many intervals as this, but not before leastStale.
const (
	staleIntervals = 6
	staleFulls     = 2
	leastStale     = 30 * time.Second
)

// Backup is the fault of backups that are behind. Changes and full are how often each is to be saved.
func Backup(s backup.State, changes, full time.Duration, now time.Time) *conditions.Fault {
	age := s.Age(now)
	switch {
	case !s.Leads:
		return nil
	case age < max(staleIntervals*changes, leastStale):
		return fullBackup(s, full, now)
	}
	age = age.Truncate(time.Second)
	switch {
	case s.Err != nil:
		return &conditions.Fault{Reason: "WriteFailed", Message: fmt.Sprintf(
			"what was committed in the last %v is not saved: %v; it is tried again: check the bucket and %s", age,
			s.Err, setting.Name("Backups.Bucket"))}
	case s.Saved.IsZero() && !s.Full.IsZero():
		return &conditions.Fault{Reason: "FirstFullBackup", Message: fmt.Sprintf(
			"there is nothing to restore yet: the first full backup has been running for %v", age)}
	}
	return &conditions.Fault{Reason: "Slow", Message: fmt.Sprintf(
		"what was committed in the last %v is not saved: the bucket, or the database, is too slow", age)}
}

// fullBackup is the fault of a full backup that has no successor in time, while changes are saved after it.
func fullBackup(s backup.State, interval time.Duration, now time.Time) *conditions.Fault {
	age := now.Sub(s.LastFull)
	if s.LastFull.IsZero() || age < max(staleFulls*interval, leastStale) {
		return nil
	}
	const text = "the last full backup began %v ago; changes since then are saved, but a restore has to read all of " +
		"them, and no older backup is deleted: "
	age = age.Truncate(time.Second)
	running := now.Sub(s.Full).Truncate(time.Second)
	switch {
	case s.FullErr != nil:
		return &conditions.Fault{Reason: "FullBackupFailed", Message: fmt.Sprintf(
			text+"the next full backup failed: %v; it is tried again: check the bucket and %s", age, s.FullErr,
			setting.Name("Backups.Bucket"))}
	case !s.Full.IsZero() && running >= interval:
		return &conditions.Fault{Reason: "FullBackupSlow", Message: fmt.Sprintf(
			text+"the next full backup has been running for %v: the bucket, or the database, is too slow for %s %v",
			age, running, setting.Name("Backups.FullInterval"), interval)}
	}
	return nil
}
