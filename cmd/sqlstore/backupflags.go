package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
)

// backupFlags are the server's flags for continuous backups.
type backupFlags struct {
	to                           string
	interval, fullInterval, keep time.Duration
	recipients                   []string
}

// The defaults of the flags.
const (
	backupInterval     = 5 * time.Second
	backupFullInterval = 24 * time.Hour
	backupKeep         = 7 * 24 * time.Hour
)

const recipientHelp = "age recipient (age1...), or a file with some, who can decrypt the backups; may be repeated " +
	"(default: not encrypted)"

func (b *backupFlags) register(f *pflag.FlagSet) {
	f.StringVar(&b.to, "backup-to", "", "where to save the store continuously: "+bucketForms+" (default: no backups)")
	durationVar(f, &b.interval, "backup-interval", backupInterval, "how often to save what was committed since")
	durationVar(f, &b.fullInterval, "backup-full-interval", backupFullInterval,
		"how often to begin a new full backup")
	durationVar(f, &b.keep, "backup-keep", backupKeep,
		"how far back every revision and time can be restored, 1m or more; older backups are deleted")
	f.StringArrayVar(&b.recipients, "backup-recipient", nil, recipientHelp)
}

// finish checks the flags and sets the times in the server's configuration, which has limits for them.
func (b *backupFlags) finish(c *sqlstore.Config) error {
	if b.interval <= 0 || b.fullInterval <= 0 || b.keep <= 0 {
		return fmt.Errorf("%w: --backup-interval, --backup-full-interval and --backup-keep must be positive",
			errSettings)
	}
	c.Backups.Interval, c.Backups.FullInterval, c.Backups.Keep = b.interval, b.fullInterval, b.keep
	_, err := parseRecipients("backup-recipient", b.recipients)
	return err
}

// open configures where the server's backups go. end ends their use.
func (b *backupFlags) open(c *sqlstore.Config) (end func(), err error) {
	if b.to == "" {
		return func() {}, nil
	}
	r, err := openBucket(context.Background(), "backup-to", b.to, true)
	if err != nil {
		return nil, err
	}
	recipients, err := parseRecipients("backup-recipient", b.recipients)
	if err != nil {
		return nil, err
	}
	c.Backups.Bucket, c.Backups.Dir, c.Backups.Name = r.Bucket, r.Dir, bucketName(b.to, r.Dir)
	c.Backups.Recipients = recipients
	return func() { _ = r.Bucket.Close() }, nil
}
