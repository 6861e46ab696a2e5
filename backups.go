package sqlstore

import (
	"cmp"
	"context"
	"time"

	"filippo.io/age"
	"gocloud.dev/blob"

	"github.com/sqlstore/sqlstore/internal/backup"
)

// The defaults of [Backups].
const (
	defaultBackupInterval     = 5 * time.Second
	defaultBackupFullInterval = 24 * time.Hour
	defaultBackupKeep         = 7 * 24 * time.Hour
)

// Backups says where a server saves its store, and how often. It writes a full backup, and then what is committed
// since, so that the store can be restored at every revision and time. Of several replicas, the leader does it.
type Backups struct {
	// Bucket is where the backups go. It stays open when the server closes. Default: no backups.
	Bucket *blob.Bucket
	// Dir is the directory of a bucket on this machine, whose files are then synced. Leave it empty for any other.
	Dir string
	// Name is what reports call the bucket, without secrets. Default: Dir, or "a bucket".
	Name string
	// Interval is how often changes are saved. Default 5 s.
	Interval time.Duration
	// FullInterval is how often a new full backup is written. Default 24 h.
	FullInterval time.Duration
	// Keep is how far back every point can be restored, 1 min or more. Default 7 days.
	Keep time.Duration
	// Recipients can decrypt the backups. Without any, they are not encrypted.
	Recipients []age.Recipient
}

// backUp starts the backups, if there are to be any. They end with [Server.Close].
func (s *Server) backUp(b Backups) {
	if b.Bucket == nil {
		return
	}
	cfg := backup.Config{
		Repository:   &backup.Repository{Bucket: b.Bucket, Dir: b.Dir, Recipients: b.Recipients},
		Interval:     cmp.Or(b.Interval, defaultBackupInterval),
		FullInterval: cmp.Or(b.FullInterval, defaultBackupFullInterval),
		Keep:         cmp.Or(b.Keep, defaultBackupKeep), Version: Version, Logger: s.log,
	}
	r := backup.New(s.store, cfg)
	s.backupName = cmp.Or(b.Name, b.Dir, "a bucket")
	s.backups.Store(r)
	s.metrics.WatchBackups(r.State)
	ctx, stop := context.WithCancel(context.Background())
	s.stopBackups = stop
	s.wg.Go(func() { r.Run(ctx) })
}
