package postgres

import (
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// weakSettings are those with which a crash of the server may lose or damage what it has acknowledged.
var weakSettings = []string{"fsync", "full_page_writes", "synchronous_commit"}

// weakOf says which of them are off, as a column. It is asked for on each new connection and with each heartbeat:
// another server than that of the start may be the primary now, and the settings can change while it runs.
const weakOf = "concat_ws(', ', CASE WHEN current_setting('fsync', true) = 'off' THEN 'fsync=off' END, " +
	"CASE WHEN current_setting('full_page_writes', true) = 'off' THEN 'full_page_writes=off' END, " +
	"CASE WHEN current_setting('synchronous_commit', true) = 'off' THEN 'synchronous_commit=off' END)"

// NotDurable returns the settings of the server because of which nothing is written to it, "" when it keeps what it
// acknowledges.
func (b *Backend) NotDurable() string {
	if weak := b.weak.Load(); weak != nil && !b.cfg.UnsafeNoFsync {
		return *weak
	}
	return ""
}

// noteWeak takes what a server has answered to weakOf.
func (b *Backend) noteWeak(weak string) {
	old := b.weak.Swap(&weak)
	switch {
	case b.cfg.UnsafeNoFsync, old == nil, *old == weak: // at the start it is refused
	case weak == "":
		b.log.Info("the database server keeps what it acknowledges again, and writes go on")
	default:
		b.log.Error("the database server may lose acknowledged writes when it crashes, and nothing is written to it: "+
			"turn the settings on, or restart with "+setting.Name("UnsafeNoFsync"), "settings", weak)
	}
}

// durable refuses to write to a server that may lose it.
func (b *Backend) durable() error {
	if weak := b.NotDurable(); weak != "" {
		return fmt.Errorf("%w: the server has %s and may lose acknowledged writes when it crashes",
			backend.ErrUnavailable, weak)
	}
	return nil
}
